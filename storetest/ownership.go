package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

var ownershipRules = []rule{
	{
		"what Read returned belongs to the caller",
		"a reader that sorts, filters or edits the events would change them for the next reader",
		func(ctx context.Context, store watchdog.EventStore) error {
			want := numbered("a", 1)
			if err := put(ctx, store, want); err != nil {
				return err
			}
			got, err := getOne(ctx, store, runID)
			if err != nil {
				return err
			}
			if err := spoilRead(ctx, store, got); err != nil {
				return err
			}
			return holdsFirst(ctx, store, want)
		},
	},
	{
		"what was appended belongs to the caller again",
		"a host that reuses one buffer for its payloads would overwrite recorded events",
		func(ctx context.Context, store watchdog.EventStore) error {
			want, batch := numbered("a", 1), []watchdog.Event{numbered("a", 1)}
			if err := put(ctx, store, batch...); err != nil {
				return err
			}
			spoil(batch[0].Payload)
			batch[0] = numbered("other", 2)
			return holdsFirst(ctx, store, want)
		},
	},
}

// spoilRead overwrites what two reads returned.
func spoilRead(ctx context.Context, store watchdog.EventStore, before watchdog.Event) error {
	again, err := get(ctx, store, runID)
	if err != nil || len(again) != 1 {
		return errors.Join(err, fmt.Errorf("read %s the second time", list(again)))
	}
	spoil(again[0].Payload)
	spoil(before.Payload)
	again[0].ID, again[0].AggregateID = "spoiled", "spoiled"
	return nil
}

func spoil(payload []byte) { copy(payload, bytes.Repeat([]byte("#"), len(payload))) }
