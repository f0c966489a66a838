#define NAME rt_pack_avx2
#include "packing_rows.h"
