#define NAME rt_digest_avx2
#include "digest_body.h"
