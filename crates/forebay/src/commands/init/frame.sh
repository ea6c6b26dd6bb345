#!/bin/bash
%DIRECTIVES%

# Forebay in a job of %TITLE%, written by forebay init. Submit it: %SUBMIT% FILE. Lines below CHANGE are yours.
forebay=%FOREBAY%
# CHANGE: the program and its arguments
program=(%PROGRAM%)
# CHANGE: directories with software and input that all nodes read; none means the whole file system
exports=(%EXPORTS%)
%BURST%
# CHANGE: seconds that the program has for its own end when the job is ended
patience=%PATIENCE%

%SURROUNDINGS%

# Every end of this script ends the program, lands what it wrote, and ends Forebay on all nodes.
# The exit status is the program's. If the program ended well and down did not, it is that of down.
running=
end() {
  status=$?
  trap - EXIT
  trap '' %SIGNALS%
  if [ -n "$running" ]; then
    kill -TERM "$running"
    for ((tenths = 0; tenths < 10 * patience; tenths++)); do
      kill -0 "$running" || break
      sleep 0.1
    done
    kill -KILL "$running"
    wait "$running"
  fi 2>/dev/null
  %BY%"$forebay" down || failed=$?%REMOVES%
  [ "$status" != 0 ] || status=${failed:-0}
  exit "$status"
}
trap end EXIT
trap 'exit 143' %SIGNALS%

%BY%"$forebay" up "${exports[@]/#/--export=}"%UP% || exit
# In the background, so that a signal is heard immediately.
"${launch[@]}" "$forebay" %RUN% -- "${program[@]}" &
running=$!
wait "$running"
status=$?
running=
exit "$status"
