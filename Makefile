# Build, install and test the quota extension (PostgreSQL 15 to 18, PGXS).
#
#   make && make install         for the server whose pg_config is in PATH;
#                                another one: make PG_CONFIG=/path/to/pg_config
#   make test                    build, then run every test in throw-away servers
#   make demo | bench | unit     see demo/run, test/bench/run, test/unit/unit.h
#   make demo-bad-minute         a provider in trouble, drawn in bad-minute.svg
#   make bench-quick             a first look
#   make fuzz                    libFuzzer on what comes from outside, FUZZ_SECONDS=60

EXTENSION  = quota
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" quota.control)
MODULE_big = quota
PGFILEDESC = "quota - who may spend the next scarce unit"
OBJS       = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))

# Files without server headers, which test/unit links without a server
PURE       = $(wildcard src/adaptive.c src/breaker.c src/bucket.c src/bucket_rate.c src/class_order.c src/expiring.c src/fair.c src/feedback.c src/feedback_limit.c src/feedback_name.c src/feedback_read.c src/http_date.c src/http_list.c src/http_value.c src/latency.c src/match.c src/meter.c src/pace.c src/paced.c src/portion.c src/portion_active.c src/portion_claims.c src/portion_flight.c src/portion_wait.c src/position.c src/retry_budget.c src/sliding.c src/window.c)

# The install script is written by topic; upgrade scripts are kept as they are
INSTALL_SQL = $(sort $(wildcard sql/install/*.sql))
DATA_built  = sql/$(EXTENSION)--$(EXTVERSION).sql
DATA        = $(wildcard sql/$(EXTENSION)--*--*.sql)

# "make WERROR=" for a compiler that knows a warning ours did not.
WERROR      = -Werror
WARNINGS    = -Wall -Wextra $(WERROR) -Wno-unused-parameter -Wno-sign-compare \
              -Wshadow -Wvla -Wformat=2 -Wold-style-definition $(CC_WARNINGS)
# what only gcc knows; and clang does not know what a server built by gcc asks for
CC_WARNINGS = $(if $(findstring Free Software,$(shell $(CC) --version)), \
              -Wnull-dereference -Wduplicated-cond -Wlogical-op, \
              -Wno-unknown-warning-option -Wno-ignored-optimization-argument \
              -Wno-ignored-attributes)
PG_CPPFLAGS = -Isrc
# see compat.h; from 16 on the server's build has it
PG_CFLAGS   = $(WARNINGS) -fvisibility=hidden

# Bitcode would need clang to build and gains nothing: nothing here is inlined
override with_llvm = no

# Tests (input in sql/ and test/, expected output in expected/ and
# test/expected/).  Each layer starts a server of its own, so "make
# installcheck" needs "make install", an ordinary user, and no server.
# No test depends on another one's leftovers: any of them can run alone.
REGRESS       := $(filter-out $(EXTENSION)--%,$(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS   = --temp-instance=./tmp_regress --temp-config=test/quota.conf \
                 --load-extension=$(EXTENSION)
ISOLATION     := $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --temp-instance=./tmp_iso --temp-config=test/quota.conf \
                 --load-extension=$(EXTENSION)
TAP_TESTS     := $(if $(wildcard test/t/*.pl),1)
PROVE_TESTS    = test/t/*.pl
EXTRA_CLEAN    = tmp_regress tmp_iso test/unit/build

# On a fresh machine pg_config is not there yet: "make test" and "make demo"
# install what they need, so they must work without it.
all:
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
override PROVE_FLAGS += -Itest/lib
else
all install installcheck clean:
	$(error "$(PG_CONFIG)" or its PGXS files are missing: run test/tools/setup)
endif

$(OBJS): $(wildcard src/*.h) Makefile

$(DATA_built): $(INSTALL_SQL) quota.control Makefile
	cat /dev/null $(INSTALL_SQL) >$@

UNIT        = $(patsubst test/unit/%.c,test/unit/build/%,$(sort $(wildcard test/unit/test_*.c)))
# wrong arithmetic and stray pointers stop a unit test at once
UNIT_CFLAGS = -DQUOTA_UNIT -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all

test/unit/build/%: test/unit/%.c $(wildcard test/unit/*.h) $(PURE) $(wildcard src/*.h)
	@mkdir -p $(@D)
	$(CC) $(UNIT_CFLAGS) $(WARNINGS) -Isrc -Itest/unit -o $@ $< $(PURE) -lm

# includes it, to give it time zones of its own
test/unit/build/test_calendar: src/calendar.c

unit: $(UNIT)
	@status=0; for t in $(UNIT); do echo "# $$t"; ASAN_OPTIONS=detect_leaks=0 ./$$t || status=1; done; exit $$status

# what random bytes don't find in what comes from outside, for a while; needs clang
FUZZ_SECONDS = 60
fuzz: test/unit/test_feedback_fuzz.c $(PURE)
	@mkdir -p test/unit/build/corpus
	clang -DQUOTA_UNIT -DQUOTA_LIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-Isrc -Itest/unit -o test/unit/build/fuzz $< $(PURE)
	test/unit/build/fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=2000 -dict=test/unit/feedback.dict -artifact_prefix=test/unit/build/ test/unit/build/corpus

test:
	test/run
demo:
	demo/run
demo-bad-minute:
	demo/run bad-minute
bench:
	test/bench/run
bench-quick:
	QUICK=1 test/bench/run

.PHONY: all test demo demo-bad-minute bench bench-quick unit fuzz
.DELETE_ON_ERROR:
