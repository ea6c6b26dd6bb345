! fortran08 FILE: the calls of Fortran programs, by the module mpi_f08, whose handles are types.
program fortran08
  use mpi_f08
  implicit none
  integer, parameter :: n = 500
  integer :: rank, ranks, ierr, count, i
  type(MPI_File) :: fh
  type(MPI_Datatype) :: tile
  type(MPI_Info) :: info
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  integer(kind=MPI_OFFSET_KIND) :: offset, size
  double precision :: values(n), back(n)
  character(len=256) :: name
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, name)
  do i = 1, n
    values(i) = rank * 1000d0 + i
  end do
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, 'cb_nodes', '2', ierr)
  call MPI_File_open(MPI_COMM_WORLD, name, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), info, fh, ierr)
  if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  offset = rank * n * 8_MPI_OFFSET_KIND
  call MPI_File_write_at_all(fh, offset, values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count, ierr)
  if (count /= n) call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
  call MPI_Type_vector(n / 10, 10, 10 * ranks, MPI_DOUBLE_PRECISION, tile, ierr)
  call MPI_Type_commit(tile, ierr)
  offset = (ranks * n + rank * 10) * 8_MPI_OFFSET_KIND
  call MPI_File_set_view(fh, offset, MPI_DOUBLE_PRECISION, tile, 'native', MPI_INFO_NULL, ierr)
  call MPI_File_write_all(fh, values, n, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
  call MPI_File_sync(fh, ierr)
  call MPI_File_seek(fh, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierr)
  back = 0
  call MPI_File_read_all(fh, back, n, MPI_DOUBLE_PRECISION, status, ierr)
  if (any(back /= values)) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_File_set_view(fh, 0_MPI_OFFSET_KIND, MPI_BYTE, MPI_BYTE, 'native', MPI_INFO_NULL, ierr)
  offset = (2 * ranks + rank) * n * 8_MPI_OFFSET_KIND
  call MPI_File_iwrite_at_all(fh, offset, values, n, MPI_DOUBLE_PRECISION, request, ierr)
  call MPI_Wait(request, status, ierr)
  offset = (3 * ranks + rank) * n * 8_MPI_OFFSET_KIND
  call MPI_File_write_at_all_begin(fh, offset, values, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_write_at_all_end(fh, values, status, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_get_size(fh, size, ierr)
  if (size /= 4_MPI_OFFSET_KIND * ranks * n * 8) call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
  call MPI_File_close(fh, ierr)
  if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 5, ierr)
  call MPI_Finalize(ierr)
end program fortran08
