/* Points between the steps by which files and databases come into being, at which a test ends the process as a kill
 * would. */
#ifndef YIR_CRASHPOINT_H
#define YIR_CRASHPOINT_H

/*
 * YIR_CRASH_POINT("file.synced"): what has been done by now is noun.participle; a label stands at one place only.
 * Nothing in what is shipped. tests/CMakeLists.txt compiles the files that have points once more, with YOLOC_CRASH,
 * for the programs that link tests/crashpoint.c.
 */
#ifdef YOLOC_CRASH
void yir_crash_point(const char *label);
#define YIR_CRASH_POINT(label) yir_crash_point(label)
#else
#define YIR_CRASH_POINT(label) ((void)0)
#endif

#endif
