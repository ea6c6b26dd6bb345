! checkpoint FILE: two variables of every rank, as one exchange, and back.
!
!     mpif90 -o checkpoint forebay_mpiio.f90 checkpoint.f90 -lforebay_mpiio_mpich
!     mpiexec -n 8 ./checkpoint /scratch/checkpoint
program checkpoint
  use mpi
  use, intrinsic :: iso_c_binding
  use forebay_mpiio
  implicit none
  integer, parameter :: n = 1000
  integer :: rank, ranks, ierr, i
  character(len=1024) :: name
  type(c_ptr) :: file
  integer(c_int64_t) :: offsets(2), lengths(2)
  integer(c_int64_t), target :: there
  double precision, target :: density(n), energy(n), back(n)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, name)
  do i = 1, n
    density(i) = rank * n + i
    energy(i) = -density(i)
  end do
  lengths = 8 * n
  offsets = [int(rank, c_int64_t) * 8 * n, int(ranks + rank, c_int64_t) * 8 * n]
  call check(forebay_mpiio_open(MPI_COMM_WORLD, name, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file))
  call check(forebay_mpiio_declare(file, 2, offsets, lengths))
  call check(forebay_mpiio_write(file, offsets(1), c_loc(density), lengths(1)))
  call check(forebay_mpiio_write(file, offsets(2), c_loc(energy), lengths(2)))
  call check(forebay_mpiio_flush(file))
  call check(forebay_mpiio_read(file, offsets(2), c_loc(back), lengths(2), c_loc(there)))
  call check(forebay_mpiio_flush(file))
  if (there /= lengths(2) .or. any(back /= energy)) call check(MPI_ERR_OTHER)
  call check(forebay_mpiio_finalise(file))
  call MPI_Finalize(ierr)

contains

  subroutine check(code)
    integer, intent(in) :: code
    if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, code, ierr)
  end subroutine check
end program checkpoint
