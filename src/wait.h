/*
 * wait.h
 *		The procedures that wait.
 */
#ifndef QUOTA_WAIT_H
#define QUOTA_WAIT_H

/* Hooks and callbacks of the library; while preloading. */
extern void wait_init(void);

struct FunctionCallInfoBaseData;

/* Throws 25001 where the procedure can't end the transaction. */
extern void wait_check_context(struct FunctionCallInfoBaseData *fcinfo,
							   const char *procedure);

#endif							/* QUOTA_WAIT_H */
