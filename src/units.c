/*
 * units.c
 *		Measured units of a call: {"input_token": 1200}.
 */
#include "policy.h"

#include "common/hashfn.h"
#include "error.h"
#include "utils/builtins.h"

/* Amount of one value; throws 22023 unless it is a whole number in range. */
static int64
parse_amount(const JsonbValue *value)
{
	char	   *digits;
	char	   *end;
	int64		amount;

	if (value->type != jbvNumeric)
		quota_error_units("Its values must be numbers.");
	digits = DatumGetCString(DirectFunctionCall1(numeric_out,
											   NumericGetDatum(value->val.numeric)));
	errno = 0;
	amount = strtoll(digits, &end, 10);
	if (errno != 0 || *end != '\0' || amount < 0 || amount > QUOTA_MAX_COST)
		quota_error_units(psprintf("The amount %s is not a whole number from 0 to %lld.",
								   digits, (long long) QUOTA_MAX_COST));
	pfree(digits);
	return amount;
}

/* The map as a palloc'd array; throws 22023 when it is malformed. */
QuotaUnits *
quota_units_parse(Jsonb *json)
{
	QuotaUnits *units = palloc0(sizeof(QuotaUnits));
	JsonbIterator *it;
	JsonbValue	v;
	JsonbIteratorToken token;

	if (!JB_ROOT_IS_OBJECT(json))
		quota_error_units("It is not an object.");
	it = JsonbIteratorInit(&json->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			if (units->n == QUOTA_MAX_TERMS)
				quota_error_units(psprintf("It names more than %d units.",
										   QUOTA_MAX_TERMS));
			if (v.val.string.len < 1 || v.val.string.len >= QUOTA_NAME_LEN)
				quota_error_units(psprintf("The name of a unit has 1 to %d bytes.",
										   QUOTA_NAME_LEN - 1));
			memcpy(units->u[units->n].unit, v.val.string.val, v.val.string.len);
		}
		else if (token == WJB_VALUE)
			units->u[units->n++].amount = parse_amount(&v);
	}
	return units;
}

/* Units named for "unit", -1 when it is not named; never throws. */
int64
quota_units_of(const QuotaUnits *units, const char *unit)
{
	for (int i = 0; units && i < units->n; i++)
		if (strcmp(units->u[i].unit, unit) == 0)
			return units->u[i].amount;
	return -1;
}

/* Names a unit in shared memory; units are the administrator's words. */
uint64
quota_unit_hash(const char *unit)
{
	return hash_bytes_extended((const unsigned char *) unit,
							   (int) strlen(unit), 0);
}
