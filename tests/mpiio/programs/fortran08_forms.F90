#define F08
#include "fortran_forms.F90"
