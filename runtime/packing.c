#define NAME rt_pack
#include "packing_rows.h"
