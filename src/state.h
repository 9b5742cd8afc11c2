/*
 * state.h
 *		Shared memory over a clean restart.
 */
#ifndef QUOTA_STATE_H
#define QUOTA_STATE_H

#include "postgres.h"

/*
 * Postmaster, at start, tables empty and locks ready: continues from the state
 * file, or starts a new crash epoch with a new secret and clock.  Never throws
 * for what is in the file.
 */
extern void quota_state_load(void);

/* on_shmem_exit callback of the postmaster */
extern void quota_state_save(int code, Datum arg);

#endif							/* QUOTA_STATE_H */
