/*
 * wait.h
 *		The procedures that wait.
 */
#ifndef QUOTA_WAIT_H
#define QUOTA_WAIT_H

/* Hooks and callbacks of the library; while preloading. */
extern void wait_init(void);

#endif							/* QUOTA_WAIT_H */
