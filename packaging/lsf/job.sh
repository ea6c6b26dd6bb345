#!/bin/bash -e
#BSUB -nnodes 2
#BSUB -W 2:00
#BSUB -alloc_flags nvme
# A job of LSF with CSM (as on Summit) with a burst tier: bsub job.sh. The script runs on a launch node, which has no NVMe; jsrun runs
# programs on the compute nodes, one alone on the first of them. BACKING, FOREBAY and PROGRAM are to be set here or by bsub -env.
: "${FOREBAY:=forebay}"

# The first line is the launch node's; a compute node has a line for each slot. All nodes see the home directory.
nodes=$(mktemp "$HOME/.forebay-nodes-XXXXXX")
tail -n +2 "$LSB_DJOB_HOSTFILE" | uniq >"$nodes"
first="jsrun --nrs 1 --rs_per_host 1"
trap '$first "$FOREBAY" down; rm -f "$nodes"' EXIT

$first "$FOREBAY" up --hostfile "$nodes" --burst "/ckpt=$BACKING" --burst-store auto --time-limit auto
jsrun --nrs "$(wc -l <"$nodes")" --rs_per_host 1 $PROGRAM
