/*
 * config_reserve.h
 *		Between the triggers of quota.classes.
 */
#ifndef QUOTA_CONFIG_RESERVE_H
#define QUOTA_CONFIG_RESERVE_H

#include "quota.h"

/*
 * The running UPDATE is part of an INSERT, after which the sum is checked: when a
 * dump is restored it may be too much until all rows are there.
 */
extern bool config_reserve_later;

#endif							/* QUOTA_CONFIG_RESERVE_H */
