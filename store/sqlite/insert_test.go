package sqlite_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

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
			file := newFile(t)
			s, err := sqlite.Config{Outbox: true}.Open(t.Context(), file)
			require.NoError(t, err)
			defer s.Close()
			var events []watchdog.Event
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
			require.Len(t, queryAll(t, openPlain(t, file), allInOutbox), 4*batch.size)
		})
	}
}
