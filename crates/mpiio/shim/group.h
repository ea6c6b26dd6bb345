/* The part of MPI that the Rust part needs: collective calls and messages in a communicator of its own. */
#ifndef FOREBAY_MPIIO_GROUP_H
#define FOREBAY_MPIIO_GROUP_H

#include "core.h"
#include "mpi_table.h"

/* Its context is the address of the communicator. */
extern const struct fb_calls fb_group_calls;

#endif
