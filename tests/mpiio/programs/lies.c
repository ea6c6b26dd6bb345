/* lies FILE: declares less than it writes. The write is refused, on that rank alone, and harms nothing. */
#include <forebay_mpiio.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Offset offset = rank * 100, length = 100;
    char bytes[200] = {0};
    bytes[0] = bytes[99] = 'x';
    forebay_mpiio *file;
    int opened = forebay_mpiio_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    int declared = forebay_mpiio_declare(file, 1, &offset, &length);
    int more = forebay_mpiio_write(file, offset, bytes, 101), before = forebay_mpiio_write(file, -1, bytes, 1);
    int right = forebay_mpiio_write(file, offset, bytes, 100), flushed = forebay_mpiio_flush(file);
    printf("%d %d %d %d %d %d %d\n", opened == MPI_SUCCESS, declared == MPI_SUCCESS, more == MPI_ERR_ARG,
           before == MPI_ERR_ARG, right == MPI_SUCCESS, flushed == MPI_SUCCESS, forebay_mpiio_finalise(file) == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
