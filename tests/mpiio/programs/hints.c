/* hints FILE: a program that gives hints for a file that is open already, by MPI_File_set_info and with a view. Rank 0 prints which
 * of the library's hints hold at the end. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { N = 5000 };
static int rank, ranks;
static MPI_File fh;

static MPI_Info hint(const char *name, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, name, value);
    return info;
}

static void write_part(int part) {
    char buf[N];
    memset(buf, 'a' + rank, N);
    MPI_File_write_at_all(fh, ((MPI_Offset)part * ranks + rank) * N, buf, N, MPI_BYTE, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int is_there = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh);
    write_part(0);
    MPI_Info none = hint("forebay_aggregation", "disable"), some = hint("forebay_aggregation", "enable");
    MPI_File_set_info(fh, none);
    write_part(1);
    /* A view without hints changes none. */
    MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    write_part(2);
    MPI_Info_set(some, "forebay_aggregators", "2");
    MPI_Info_set(some, "striping_unit", "4096");
    MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", some);
    write_part(3);
    write_part(4);
    MPI_Info holds;
    MPI_File_get_info(fh, &holds);
    MPI_Info_get(holds, "forebay_aggregation", MPI_MAX_INFO_VAL, value, &is_there);
    if (rank == 0) printf("%s\n", is_there ? value : "none");
    MPI_Info_free(&holds), MPI_Info_free(&none), MPI_Info_free(&some);
    MPI_File_close(&fh);
    MPI_Finalize();
    return 0;
}
