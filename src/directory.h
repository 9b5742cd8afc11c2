/*
 * directory.h
 *		What shmem.c needs of directory.c to lay out the hash heads.
 */
#ifndef QUOTA_DIRECTORY_H
#define QUOTA_DIRECTORY_H

#include "postgres.h"

extern Size quota_directory_size(void);
extern void quota_directory_attach(char *block);
extern void quota_directory_init(void);

#endif							/* QUOTA_DIRECTORY_H */
