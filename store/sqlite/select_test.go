package sqlite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// foreignRow inserts an event of run-1 as another program would.
func foreignRow(id, kind, timestamp string) string {
	return fmt.Sprintf(`INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		VALUES ('%s', 'runtime_control', 'run-1', '%s', '{}', %s)`, id, kind, timestamp)
}

// Select finds the rows of other writers, whatever the form of their times.
func TestSelectForeignTimes(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	if err := s.Append(t.Context(), numbered(-60), numbered(0), numbered(60)); err != nil { // 11:59, 12:00, 12:01
		t.Fatal(err)
	}
	for id, timestamp := range map[string]string{
		"zulu":       "'2026-03-04T11:59:30Z'",
		"short":      "'2026-03-04 12:00'",
		"few digits": "'2026-03-04 12:00:00.5'",
		"west":       "'2026-03-03 22:00:01-14:00'",
		"east":       "'2026-03-05T01:59:59.9+14:00'",
		"spaced":     "'  2026-03-04 12:00:02  '",
		"of Go":      "'2026-03-04 07:00:03 -0500 EST'",
		"blob":       "x'323032362d30332d30342031323a30303a30342e303030303030'", // our form
	} {
		mustExec(t, db, foreignRow(id, "host."+id, timestamp))
	}
	for _, since := range []time.Time{
		noon.Add(-time.Minute), noon.Add(-time.Second), noon, noon.Add(time.Second), noon.Add(2*time.Second + time.Microsecond),
		noon.Add(4 * time.Second), noon.Add(5 * time.Second), noon.Add(time.Hour),
	} {
		for _, latest := range [][]string{nil, {"host.zulu", "host.east"}, {event.Cancel}, {"host.blob", "host.of Go"}} {
			comparesToRead(t, s, event.Selection{Since: since, LatestOf: latest, IDs: []string{"west"}})
		}
	}
	t.Run("and without indexes", func(t *testing.T) {
		mustExec(t, db, "DROP INDEX watchdog_events_foreign_time", "DROP INDEX watchdog_events_aggregate")
		comparesToRead(t, s, event.Selection{Since: noon, LatestOf: []string{"host.east"}, IDs: []string{"west"}})
	})
}

// comparesToRead checks that Select selects what a filter of Read does.
func comparesToRead(t *testing.T, s *sqlite.Store, selection event.Selection) {
	t.Helper()
	selection.AggregateType, selection.AggregateID = event.AggregateType, "run-1"
	var want []string
	latest := ""
	all := read(t, s)
	for _, e := range all {
		if e.Timestamp.Before(selection.Since) && slices.Contains(selection.LatestOf, e.Type) {
			latest = e.ID
		}
	}
	for _, e := range all {
		if !e.Timestamp.Before(selection.Since) || e.ID == latest || slices.Contains(selection.IDs, e.ID) {
			want = append(want, e.ID)
		}
	}
	got, err := s.Select(t.Context(), selection)
	require.NoError(t, err)
	require.Equal(t, want, ids(got))
}

func TestSelectUnreadable(t *testing.T) {
	t.Parallel()
	for name, timestamp := range map[string]string{"of another form": "'yesterday'", "that is NULL": "NULL", "number": "1"} {
		t.Run("a time "+name+" is an error that names the row", func(t *testing.T) {
			db := openPlain(t, newFile(t))
			mustExec(t, db, tableWith())
			s := newStore(t, db)
			mustExec(t, db, foreignRow("odd", "host.note", timestamp))
			_, err := s.Select(t.Context(), event.Selection{
				AggregateType: event.AggregateType, AggregateID: "run-1", Since: noon,
			})
			errorSays(t, err, "odd", "timestamp")
		})
	}
}

func TestLayersOfForeignRows(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	insert := `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		VALUES ('%s', '%s', '%s', 'x', %s, 'any')`
	mustExec(t, db,
		fmt.Sprintf(insert, "1", "runtime_control", "text", `'{"parent":"run"}'`),
		fmt.Sprintf(insert, "2", "runtime_control", "blob", `CAST('{"parent":"run"}' AS BLOB)`),
		fmt.Sprintf(insert, "3", "runtime_control", "broken", `'{"parent":"run"'`), // the index must not refuse it
		fmt.Sprintf(insert, "4", "session", "broken", `'{"parent":"run"'`))
	for range 2 { // with an index, and without one
		layers, err := s.Layers(t.Context(), "run")
		require.NoError(t, err)
		require.Equal(t, []string{"blob", "text"}, layers)
		mustExec(t, db, "DROP INDEX IF EXISTS watchdog_events_parent")
	}
}

func TestWithoutRowID(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	mustExec(t, db, tableWith()+" WITHOUT ROWID")
	s := newStore(t, db)
	require.NoError(t, s.Transact(t.Context(), decides(numbered(1))))
}

func TestStoredRow(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	err := s.Append(t.Context(),
		event.Event{
			ID: "0f0e0d0c-0b0a-5908-8706-050403020100", AggregateType: "runtime_control", AggregateID: "run/with'quote",
			Type:      event.Cancel,
			Timestamp: time.Date(2026, 3, 4, 7, 8, 9, 120_300_999, time.FixedZone("east", 2*3600)),
			Payload:   json.RawMessage(" {\"reason\":\"wall_clock_exceeded\", \"elapsed_seconds\":5}\n"), ConsensusID: "c-1",
		},
		event.Event{
			ID: "second", AggregateType: "runtime_control", AggregateID: "run/with'quote",
			Type: event.Resume, Timestamp: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
			Payload: json.RawMessage(`{}`),
		},
	)
	require.NoError(t, err)
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
	require.Equal(t, want, got)
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
		require.Equal(t, []string{"a", "b", "c", "d"}, ids(events))
		for i, want := range []struct {
			at      time.Duration
			payload string
		}{
			{0, `{"a":1}`},
			{1123456 * time.Microsecond, `{ }`},
			{2500 * time.Millisecond, `{"a":1}`},
			{3 * time.Second, `{"a": 1, "event_version": 1}`},
		} {
			require.Equal(t, noon.Add(want.at), events[i].Timestamp)
			require.Equal(t, want.payload, string(events[i].Payload))
		}
	})
	t.Run("with NULL for a payload have an empty one", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, tableWith(), `INSERT INTO events (id, aggregate_type, aggregate_id, timestamp)
			VALUES ('a', 'runtime_control', 'run-1', '2026-03-04 12:00')`)
		events := read(t, newStore(t, db))
		require.Len(t, events, 1)
		require.Equal(t, "{}", string(events[0].Payload))
		require.Equal(t, noon, events[0].Timestamp)
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
			_, err := newStore(t, db).Read(t.Context(), event.AggregateType, "run-1")
			errorSays(t, err, "the-event", test.says)
			if strings.Contains(err.Error(), "canary") || len(err.Error()) > 400 {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

// A batch may need several statements: it has too many rows for one, or too long payloads.
func TestInsertEvents(t *testing.T) {
	t.Parallel()
	long := `{"text":"` + strings.Repeat(`\"<é\u0000`, sqlite.MostBytes/20) + `"}`
	for name, batch := range map[string]struct {
		size    int
		payload string // empty for a short one
	}{
		"one row": {1, ""}, "one statement": {sqlite.MostRows, ""}, "one row more": {sqlite.MostRows + 1, ""},
		"several statements": {2*sqlite.MostRows + 1, ""}, "long payloads": {5, long},
	} {
		t.Run(name, func(t *testing.T) {
			s := openNew(t)
			var events []event.Event
			for n := range int64(batch.size) {
				e := numbered(n)
				if batch.payload != "" {
					e.Payload = []byte(batch.payload)
				}
				events = append(events, e)
			}
			taken := events[batch.size/2]
			taken.Payload = []byte(`{"first":true}`)
			require.NoError(t, s.Append(t.Context(), taken))
			all := decides(slices.Concat(events, events[:1])...)
			require.NoError(t, s.Transact(t.Context(), all))
			events[batch.size/2] = taken
			require.Equal(t, events, read(t, s))
			require.Equal(t, slices.Concat(events, events[:1]), all.Kept)
			all.Kept[0].Payload[0] = '['
			require.True(t, bytes.HasPrefix(all.Kept[batch.size].Payload, []byte("{")), "the caller may change each payload")
		})
	}
}

func TestAddVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ appended, stored, read string }{
		{`{}`, `{"event_version":1}`, `{}`},
		{" { }\n", `{"event_version":1}`, `{}`},
		{`{"a":1}`, `{"a":1,"event_version":1}`, `{"a":1}`},
		{`{"a":1 }`, `{"a":1 ,"event_version":1}`, `{"a":1 }`},
		{`{"event_version":1}`, `{"event_version":1 }`, `{"event_version":1 }`},
		{`{"a":1,"event_version":1}`, `{"a":1,"event_version":1 }`, `{"a":1,"event_version":1 }`},
		{`{"a":1, "event_version":1}`, `{"a":1, "event_version":1}`, `{"a":1, "event_version":1}`},
		{`{"event_version":2,"a":1}`, `{"event_version":2,"a":1}`, `{"event_version":2,"a":1}`},
		{`{"a":{"event_version":1}}`, `{"a":{"event_version":1},"event_version":1}`, `{"a":{"event_version":1}}`},
		{
			`{"a":[{"b":0,"event_version":1}]}`,
			`{"a":[{"b":0,"event_version":1}],"event_version":1}`,
			`{"a":[{"b":0,"event_version":1}]}`,
		},
		{`{"event_versio\u006e":3}`, `{"event_versio\u006e":3}`, `{"event_versio\u006e":3}`},
		{`{"a":"event_version"}`, `{"a":"event_version","event_version":1}`, `{"a":"event_version"}`},
		{`{"Event_Version":3}`, `{"Event_Version":3,"event_version":1}`, `{"Event_Version":3}`},
		{`{"a":"\\"}`, `{"a":"\\","event_version":1}`, `{"a":"\\"}`},
	} {
		stored := sqlite.AddVersion([]byte(test.appended))
		require.Equal(t, test.stored, stored)
		if read := string(sqlite.StripVersion(stored)); read != test.read {
			t.Errorf("%s is read as %s, want %s", test.appended, read, test.read)
		}
	}
}

// FuzzAddVersion checks that every payload is stored as JSON with an event_version, and read as appended.
func FuzzAddVersion(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, `{"event_version":1}`, `{"a":1,"event_version":1}`,
		` { "a" : [ {"event_version":1} ] } `, `{"event_versio\u006e":1}`, `{"":",\"event_version\":1}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		e := numbered(1)
		if e.Payload = payload; e.Validate() != nil {
			return
		}
		stored := sqlite.AddVersion(payload)
		if _, exists := decode(t, []byte(stored))["event_version"]; !exists {
			t.Fatalf("%q is stored without an event_version: %q", payload, stored)
		}
		require.Equal(t, decode(t, payload), decode(t, sqlite.StripVersion(stored)))
	})
}

// FuzzStripVersion checks that stripVersion removes only the added key from a foreign payload, and leaves JSON.
func FuzzStripVersion(f *testing.F) {
	f.Add(`{"a":1,"event_version":1}`)
	f.Add(`{"a":"x,\"event_version\":1}`)
	f.Add(`{"event_version":1}`)
	f.Fuzz(func(t *testing.T, stored string) {
		if !json.Valid([]byte(stored)) || stored[0] != '{' {
			return
		}
		read := string(sqlite.StripVersion(stored))
		marked := stored == `{"event_version":1}` || read[:len(read)-1]+`,"event_version":1}` == stored
		if !json.Valid([]byte(read)) || read != stored && !marked {
			t.Fatalf("%q is read as %q", stored, read)
		}
	})
}

func decode(t *testing.T, payload []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(payload, &object); err != nil {
		t.Skip("a number that Go's float cannot hold")
	}
	return object
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	at := func(hour, minute, second, microsecond int) time.Time {
		return time.Date(2026, 3, 4, hour, minute, second, microsecond*1000, time.UTC)
	}
	for text, want := range map[string]time.Time{
		"2026-03-04 12:00:00.000000":                          at(12, 0, 0, 0),
		"2026-03-04 12:00:00.123456":                          at(12, 0, 0, 123456),
		"2026-03-04T12:00:00.123456Z":                         at(12, 0, 0, 123456),
		"2026-03-04t12:00:00.123456z":                         at(12, 0, 0, 123456),
		"2026-03-04T12:00:00.123456+00:00":                    at(12, 0, 0, 123456),
		"2026-03-04 12:00:00+00":                              at(12, 0, 0, 0),
		"2026-03-04 12:00:00.5+02":                            at(10, 0, 0, 500000),
		"2026-03-04 12:00:00 +0200":                           at(10, 0, 0, 0),
		"2026-03-04 12:00:00-05:30":                           at(17, 30, 0, 0),
		"2026-03-04 12:00:00.1":                               at(12, 0, 0, 100000),
		"2026-03-04 12:00:00.123456789":                       at(12, 0, 0, 123456),
		"2026-03-04 12:00:00.999999999999":                    at(12, 0, 0, 999999),
		"2026-03-04 12:00:00,25":                              at(12, 0, 0, 250000),
		"2026-03-04 12:00":                                    at(12, 0, 0, 0),
		"2026-03-04T12:00Z":                                   at(12, 0, 0, 0),
		" 2026-03-04 12:00:00 UTC ":                           at(12, 0, 0, 0),
		"2026-03-04 12:00:00.123456789 +0000 UTC":             at(12, 0, 0, 123456),
		"2026-03-04 14:00:00 +0200 CEST":                      at(12, 0, 0, 0),
		"2026-03-04 12:00:00.5 +0000 UTC m=+0.000123":         at(12, 0, 0, 500000),
		"0001-01-01 00:00:00.000001":                          time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		"9999-12-31 23:59:59.999999":                          time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
		"1969-12-31 23:59:59.9999999":                         time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		"2024-02-29 00:00:00":                                 time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).String(): at(12, 0, 0, 0),
	} {
		if got, err := sqlite.ParseTime(text); err != nil || got != want {
			t.Errorf("%q is read as %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseInvalidTime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "now", "2026-03-04", "12:00:00", "1772625600", "2461104.5",
		"2026-03-04_12:00:00", "2026-02-30 12:00:00", "2026-03-04 25:00:00",
		"2026-03-04 12:00:60", "2026-03-04 12:00:00 Mars",
		"2026-03-04 12:00:00+99:99", "26-03-04 12:00:00", "12026-03-04 12:00:00",
		"0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-14:00",
		"2026-03-04 12:00:00.", "2026-03-04 12:00:00ZZ", "２０２６-03-04 12:00:00",
	} {
		if got, err := sqlite.ParseTime(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// FuzzParseTime checks that a time that was read is one that an event can have, and is the same after it is written.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{
		"2026-03-04 12:00:00.123456", "2026-03-04T12:00:00Z", "2026-03-04 12:00:00.5 +0000 UTC m=+0.1",
		"2026-03-04 12:00-07", "0001-01-01 00:00:00+14:00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := sqlite.ParseTime(text)
		if err != nil {
			return
		}
		if read.Location() != time.UTC || read.Year() < 1 || read.Year() > 9999 || read.Nanosecond()%1000 != 0 {
			t.Fatalf("%q is read as %v", text, read)
		}
		if again, err := sqlite.ParseTime(sqlite.FormatTime(read)); err != nil || again != read {
			t.Fatalf("%q is read as %v, written as %q, and then read as %v, %v", text, read, sqlite.FormatTime(read), again, err)
		}
	})
}
