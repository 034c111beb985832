package sqlite_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

func TestStoredRow(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	err := s.Append(t.Context(),
		watchdog.Event{
			ID: "0f0e0d0c-0b0a-5908-8706-050403020100", AggregateType: "runtime_control", AggregateID: "run/with'quote",
			Type:      watchdog.EventCancel,
			Timestamp: time.Date(2026, 3, 4, 7, 8, 9, 120_300_999, time.FixedZone("east", 2*3600)),
			Payload:   json.RawMessage(" {\"reason\":\"wall_clock_exceeded\", \"elapsed_seconds\":5}\n"), ConsensusID: "c-1",
		},
		watchdog.Event{
			ID: "second", AggregateType: "runtime_control", AggregateID: "run/with'quote",
			Type: watchdog.EventResume, Timestamp: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
			Payload: json.RawMessage(`{}`),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := queryAll(t, openPlain(t, file), `SELECT id, aggregate_type, aggregate_id, event_type, payload,
		CAST(timestamp AS TEXT), consensus_id, typeof(payload) || ' ' || typeof(timestamp)
		FROM events ORDER BY timestamp DESC`)
	want := []string{
		"0f0e0d0c-0b0a-5908-8706-050403020100", "runtime_control", "run/with'quote", "runtime.watchdog.cancel",
		`{"reason":"wall_clock_exceeded", "elapsed_seconds":5,"event_version":1}`,
		"2026-03-04 05:08:09.120300", "c-1", "text text",
		"second", "runtime_control", "run/with'quote", "runtime.watchdog.resume",
		`{"event_version":1}`, "1969-12-31 23:59:59.000000", "NULL", "text text",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%q, want\n%q", got, want)
	}
}

func TestForeignRows(t *testing.T) {
	t.Parallel()
	t.Run("are read with timestamps in every common form, in the order of time", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, foreignTable, `INSERT INTO events
			(id, aggregate_type, aggregate_id, event_type, payload, timestamp) VALUES
			('d', 'runtime_control', 'run-1', 'x', '{"a": 1, "event_version": 1}', '2026-03-04T12:00:03Z'),
			('a', 'runtime_control', 'run-1', 'x', '{"a":1,"event_version":1}', '2026-03-04 14:00:00+02:00'),
			('c', 'runtime_control', 'run-1', 'x', '{"a":1}', '2026-03-04T12:00:02.5'),
			('b', 'runtime_control', 'run-1', 'x', '{ }', '2026-03-04 12:00:01.123456789 +0000 UTC')`)
		events := read(t, newStore(t, db))
		if got := ids(events); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
			t.Errorf("read %q", got)
		}
		for i, want := range []struct {
			at      time.Duration
			payload string
		}{
			{0, `{"a":1}`},
			{1123456 * time.Microsecond, `{ }`},
			{2500 * time.Millisecond, `{"a":1}`},
			{3 * time.Second, `{"a": 1, "event_version": 1}`},
		} {
			if events[i].Timestamp != noon.Add(want.at) || string(events[i].Payload) != want.payload {
				t.Errorf("event %s: %v %s, want %v %s",
					events[i].ID, events[i].Timestamp, events[i].Payload, noon.Add(want.at), want.payload)
			}
		}
	})
	t.Run("with NULL for a payload have an empty one", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, tableWith(), `INSERT INTO events (id, aggregate_type, aggregate_id, timestamp)
			VALUES ('a', 'runtime_control', 'run-1', '2026-03-04 12:00')`)
		events := read(t, newStore(t, db))
		if len(events) != 1 || string(events[0].Payload) != "{}" || events[0].Timestamp != noon {
			t.Errorf("read %v", events)
		}
	})
}

func TestInvalidForeignRows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ timestamp, payload, says string }{
		"with a timestamp that cannot be read":  {"last Tuesday", "{}", `"last Tuesday"`},
		"with a timestamp that is NULL":         {"", "{}", `""`},
		"with a payload that is not JSON":       {"2026-03-04 12:00:00", "canary", "payload"},
		"with a long text where a time belongs": {strings.Repeat("x", 500), "{}", "…"},
	} {
		t.Run(name+" is an error that names the event", func(t *testing.T) {
			db := hostDatabase(t, newFile(t))
			mustExec(t, db, tableWith(), `INSERT INTO events (id, aggregate_type, aggregate_id, timestamp, payload)
				VALUES ('the-event', 'runtime_control', 'run-1', nullif('`+test.timestamp+`', ''), '`+test.payload+`')`)
			_, err := newStore(t, db).Read(t.Context(), watchdog.AggregateType, "run-1")
			if !errorHas(err, "the-event", test.says) {
				t.Fatalf("Read returned %v", err)
			}
			if strings.Contains(err.Error(), "canary") || len(err.Error()) > 400 {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}
