#%Module1.0
# Environment Modules. The prefix is found from this file's own path, PREFIX/share/forebay/modulefile/forebay/VERSION.
set prefix $ModulesCurrentModulefile
for {set up 0} {$up < 5} {incr up} { set prefix [file dirname $prefix] }

module-whatis "Forebay: the I/O tier of a supercomputer job"
proc ModulesHelp {} { puts stderr "forebay doctor says what this machine lacks; forebay --help lists the commands." }
conflict forebay
prepend-path PATH $prefix/bin
# man(1) finds pages beside PATH by itself, and where MANPATH is set looks nowhere else.
if {[info exists env(MANPATH)]} { prepend-path MANPATH $prefix/share/man }
prepend-path CPATH $prefix/include
setenv FOREBAY_ROOT $prefix
