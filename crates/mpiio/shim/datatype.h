/* Takes MPI datatypes apart. */
#ifndef FOREBAY_MPIIO_DATATYPE_H
#define FOREBAY_MPIIO_DATATYPE_H

#include "core.h"
#include "mpi_table.h"

/* The pieces of a datatype; NULL for one that has too many, or was made in a way that MPI's standard does not know. */
fb_flat *fb_flatten(MPI_Datatype type);

#endif
