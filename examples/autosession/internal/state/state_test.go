package state_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSession(t *testing.T) (state.Dir, *state.Session) {
	t.Helper()
	dir := state.Dir(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, dir.Make())
	s := state.New(time.Date(2026, 5, 1, 14, 0, 0, 123456789, time.FixedZone("", 7200)), "build")
	s.Budget = state.KeepBudget(watchdog.Budget{WallClock: 90 * time.Minute, WarnAt: []float64{0.5}, Reserve: time.Minute})
	require.NoError(t, dir.Create(s))
	return dir, s
}

func TestSession(t *testing.T) {
	dir, s := newSession(t)
	t.Run("a saved session is loaded, times in UTC to the microsecond", func(t *testing.T) {
		loaded, err := dir.Load(s.ID)
		require.NoError(t, err)
		require.Equal(t, time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC), loaded.StartedAt.Time)
		loaded.StartedAt, loaded.CreatedAt = s.StartedAt, s.CreatedAt
		require.Equal(t, s, loaded)
	})
	t.Run("a reader with the old file open still reads all of it", func(t *testing.T) {
		path := filepath.Join(dir.Session(s.ID), "session.json")
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		old, err := os.Open(path)
		require.NoError(t, err)
		defer old.Close()
		s.Status = state.Failed
		require.NoError(t, dir.Save(s))
		text := make([]byte, 2*len(before))
		n, err := old.Read(text)
		require.NoError(t, err)
		require.Equal(t, string(before), string(text[:n]))
	})
	t.Run("a session is created once", func(t *testing.T) { require.ErrorIs(t, dir.Create(s), os.ErrExist) })
	t.Run("only the user can read the files and directories, and nothing is beside the file", func(t *testing.T) {
		for path, want := range map[string]os.FileMode{
			string(dir):       0o700,
			dir.Session(s.ID): 0o700,
			filepath.Join(dir.Session(s.ID), "session.json"): 0o600,
		} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, want, info.Mode().Perm(), path)
		}
		entries, err := os.ReadDir(dir.Session(s.ID))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestDamaged(t *testing.T) {
	dir, s := newSession(t)
	const start = `"session_started_at":"2026-01-01T00:00:00Z"`
	for problem, text := range map[string]string{
		"unexpected end":                `{"id": "`,
		"end of JSON input":             ``,
		`it belongs to session "other"`: `{"id":"other",` + start + `,"status":"running"}`,
		"is missing":                    `{"id":"ID","status":"running"}`,
		`status "weird" is none of`:     `{"id":"ID",` + start + `,"status":"weird"}`,
		"WallClock":                     `{"id":"ID",` + start + `,"status":"running","budget":{"wall_clock_seconds":-1}}`,
		"cannot parse":                  `{"id":"ID","session_started_at":"yesterday","status":"running"}`,
	} {
		text = strings.ReplaceAll(text, `"ID"`, strconv.Quote(s.ID))
		require.NoError(t, os.WriteFile(filepath.Join(dir.Session(s.ID), "session.json"), []byte(text), 0o600))
		_, err := dir.Load(s.ID)
		require.ErrorContains(t, err, "corrupt session file")
		require.ErrorContains(t, err, problem)
	}
}

func TestBudget(t *testing.T) {
	for name, b := range map[string]watchdog.Budget{
		"a limit to the nanosecond": {WallClock: 4*time.Hour + 1, Reserve: 3},
		"no limit":                  {WallClock: watchdog.NoLimit, WarnAt: []float64{}},
		"several warnings":          {WallClock: time.Second, WarnAt: []float64{0.25, 0.9}},
	} {
		t.Run(name+" comes back as it was", func(t *testing.T) {
			require.Equal(t, b, state.KeepBudget(b).Limits())
		})
	}
	t.Run("the default is kept by its value, and no limit as 0", func(t *testing.T) {
		require.InDelta(t, 14400, state.KeepBudget(watchdog.Budget{}).WallClockSeconds, 0)
		require.Zero(t, state.KeepBudget(watchdog.Budget{WallClock: watchdog.NoLimit}).WallClockSeconds)
	})
}

func TestLatest(t *testing.T) {
	dir, s := newSession(t)
	_, err := dir.Latest()
	require.ErrorContains(t, err, "no such session")
	t.Run("it is the one that was set last, also over what a killed process left half made", func(t *testing.T) {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(dir.Session(s.ID), "link.tmp")))
		for range 2 {
			require.NoError(t, dir.SetLatest(s.ID))
			id, err := dir.Latest()
			require.NoError(t, err)
			require.Equal(t, s.ID, id)
		}
	})
	t.Run("the directory can be moved", func(t *testing.T) {
		moved := string(dir) + "-moved"
		require.NoError(t, os.Rename(string(dir), moved))
		text, err := os.ReadFile(filepath.Join(moved, "session.json"))
		require.NoError(t, err)
		require.Contains(t, string(text), s.ID)
	})
	t.Run("a file in the link's place is an error that says what to do", func(t *testing.T) {
		other := state.Dir(t.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(string(other), "session.json"), []byte("{}"), 0o600))
		_, err := other.Latest()
		require.ErrorContains(t, err, "name one with -session")
	})
}

func TestValidID(t *testing.T) {
	for id, valid := range map[string]bool{
		state.New(time.Now(), "").ID: true, "a": true, "A.b_c-9": true,
		"": false, ".": false, "..": false, ".a": false, "a/b": false, `a\b`: false, "a b": false, "é": false, "-a": false,
		"1234567890123456789012345678901234567": false, // one more than fits the narrowest column
	} {
		require.Equal(t, valid, state.ValidID(id), "%q", id)
	}
}

// TestCodes checks that the watchdog ends a session with each code of this host's.
func TestCodes(t *testing.T) {
	for _, code := range []watchdog.StopReason{
		state.InterviewMaxRoundsExhausted, state.InterviewUnsafeGapsRemain, state.InterviewPhaseDeadline,
		state.IterationTimeout, state.WallClockExhausted, state.OscillationDetected, state.GradeRegressing,
		state.MaxGenerationsReached,
	} {
		w, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
		require.NoError(t, err)
		stop, err := w.Cancel(watchdog.Cancellation{Reason: code})
		require.NoError(t, err)
		require.Equal(t, code, stop.Code)
		require.ErrorIs(t, context.Cause(w.Context()), code)
		require.False(t, code.Own())
		require.NoError(t, w.Close())
	}
}
