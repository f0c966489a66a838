/* The pair of keys of the seeds of fz_sign: the first test of RFC 8032, 7.1. */
#ifndef FUZZ_SIGNKEY_H
#define FUZZ_SIGNKEY_H

#define SIGN_KEY_SEED "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
#define SIGN_KEY_POINT "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

static const char sign_key_secret[] = "yolosign-secret-1 " SIGN_KEY_SEED SIGN_KEY_POINT "\n";
static const char sign_key_public[] = "yolosign-public-1 " SIGN_KEY_POINT "\n";

#endif
