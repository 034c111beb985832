package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

var timeRules = []rule{
	{
		"times keep their microseconds",
		"a window is identified by its start, to the microsecond: a start that lost digits is another window",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				timeBecomes(ctx, store, "one", noon.Add(time.Microsecond), noon.Add(time.Microsecond)),
				timeBecomes(ctx, store, "all", noon.Add(999_999*time.Microsecond), noon.Add(999_999*time.Microsecond)),
				timeBecomes(ctx, store, "some", noon.Add(120_300*time.Microsecond), noon.Add(120_300*time.Microsecond)),
			)
		},
	},
	{
		"times are cut off below the microsecond, not rounded",
		"the watchdog truncates before it compares; a store that rounds would return a time in the future",
		func(ctx context.Context, store watchdog.EventStore) error {
			before1970 := time.Date(1969, 12, 31, 23, 59, 58, 0, time.UTC)
			return errors.Join(
				timeBecomes(ctx, store, "up", noon.Add(999), noon),
				timeBecomes(ctx, store, "half", noon.Add(500), noon),
				timeBecomes(ctx, store, "before 1970", before1970.Add(900), before1970),
			)
		},
	},
	{
		"times are read in UTC",
		"events are compared, printed and sent as they are read: with a local zone one event has two texts on two machines",
		func(ctx context.Context, store watchdog.EventStore) error {
			got, err := roundTrip(ctx, store, numbered("a", 1))
			if err == nil && got.Timestamp.Location() != time.UTC {
				err = fmt.Errorf("read %v, in %v", got.Timestamp, got.Timestamp.Location())
			}
			return err
		},
	},
	{
		"times of other zones are converted",
		"a host in another zone means the same moment: a clock time that is not converted moves a deadline by hours",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				timeBecomes(ctx, store, "east", noon.In(time.FixedZone("east", 5*3600+1800)), noon),
				timeBecomes(ctx, store, "west", noon.In(time.FixedZone("west", -11*3600)), noon),
			)
		},
	},
	{
		"the first and the last year fit",
		"nanoseconds since 1970 in 64 bits overflow in 2262: a far deadline would be read as one in the past",
		func(ctx context.Context, store watchdog.EventStore) error {
			first := time.Date(1, 1, 2, 3, 4, 5, 0, time.UTC)
			last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
			return errors.Join(
				timeBecomes(ctx, store, "first", first, first),
				timeBecomes(ctx, store, "last", last, last),
			)
		},
	},
}

// timeBecomes appends an event with the time, in an aggregate of its own, and checks the time that is read.
func timeBecomes(ctx context.Context, store watchdog.EventStore, name string, appended, want time.Time) error {
	e := inAggregate(numbered(name, 0), name)
	e.Timestamp = appended
	got, err := roundTrip(ctx, store, e)
	if err == nil && !got.Timestamp.Equal(want) {
		err = fmt.Errorf("appended %s, read %s, want %s", appended.Format(time.RFC3339Nano),
			got.Timestamp.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano))
	}
	return err
}
