package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDir(t *testing.T) state.Dir {
	t.Helper()
	dir, err := state.At(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, err)
	require.NoError(t, dir.Make())
	return dir
}

func newSession(t *testing.T, dir state.Dir) *state.Session {
	t.Helper()
	now := time.Date(2026, 5, 1, 14, 0, 0, 123456789, time.FixedZone("", 7200))
	s := &state.Session{
		ID: state.NewID(now), StartedAt: state.Time{Time: now}, CreatedAt: state.Time{Time: now},
		Status: state.Running, Phase: "build", Completed: []string{"plan"},
		Budget: state.KeepBudget(watchdog.Budget{WallClock: 90 * time.Minute, WarnAt: []float64{0.5}, Reserve: time.Minute}),
	}
	require.NoError(t, dir.Create(s))
	return s
}

func TestSession(t *testing.T) {
	t.Run("a saved session is loaded, times in UTC to the microsecond", func(t *testing.T) {
		dir := newDir(t)
		s := newSession(t, dir)
		loaded, err := dir.Load(s.ID)
		require.NoError(t, err)
		assert.Equal(t, time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC), loaded.StartedAt.Time)
		loaded.StartedAt, loaded.CreatedAt = s.StartedAt, s.CreatedAt
		assert.Equal(t, s, loaded)
	})
	t.Run("saving leaves nothing beside the file", func(t *testing.T) {
		dir := newDir(t)
		s := newSession(t, dir)
		s.Status = state.Failed
		require.NoError(t, dir.Save(s))
		entries, err := os.ReadDir(filepath.Join(dir.Path(), "sessions", s.ID))
		require.NoError(t, err)
		assert.Len(t, entries, 1)
	})
	t.Run("a session is created once", func(t *testing.T) {
		dir := newDir(t)
		require.ErrorIs(t, dir.Create(newSession(t, dir)), os.ErrExist)
	})
	t.Run("only the user can read the files and directories", func(t *testing.T) {
		dir := newDir(t)
		s := newSession(t, dir)
		for path, want := range map[string]os.FileMode{
			dir.Path(): 0o700,
			filepath.Join(dir.Path(), "sessions", s.ID):                 0o700,
			filepath.Join(dir.Path(), "sessions", s.ID, "session.json"): 0o600,
		} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, want, info.Mode().Perm(), path)
		}
	})
}

// TestOldKey reads the key that older versions wrote: started_at is now session_started_at.
func TestOldKey(t *testing.T) {
	dir := newDir(t)
	s := newSession(t, dir)
	path := filepath.Join(dir.Path(), "sessions", s.ID, "session.json")
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	write := func(t *testing.T, start string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(`{"id":"`+s.ID+`","status":"running",`+start+`}`), 0o600))
	}
	t.Run("a file with the old key is loaded", func(t *testing.T) {
		write(t, `"started_at":"2026-03-04T05:06:07Z"`)
		loaded, err := dir.Load(s.ID)
		require.NoError(t, err)
		assert.Equal(t, start, loaded.StartedAt.Time)
	})
	t.Run("it is saved with the new key alone", func(t *testing.T) {
		loaded, err := dir.Load(s.ID)
		require.NoError(t, err)
		require.NoError(t, dir.Save(loaded))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"session_started_at": "2026-03-04T05:06:07.000000Z"`)
		assert.NotContains(t, string(text), `"started_at"`)
	})
	t.Run("the new key wins where a file has both", func(t *testing.T) {
		write(t, `"session_started_at":"2026-03-04T05:06:07Z","started_at":"2026-01-01T00:00:00Z"`)
		loaded, err := dir.Load(s.ID)
		require.NoError(t, err)
		assert.Equal(t, start, loaded.StartedAt.Time)
	})
}

func TestBudget(t *testing.T) {
	for name, b := range map[string]watchdog.Budget{
		"a limit to the nanosecond": {WallClock: 4*time.Hour + 1, Reserve: 3},
		"no limit":                  {WallClock: watchdog.NoLimit, WarnAt: []float64{}},
		"the default, by its value": {WallClock: watchdog.DefaultWallClock},
		"several warnings":          {WallClock: time.Second, WarnAt: []float64{0.25, 0.9}},
	} {
		t.Run(name+" comes back as it was", func(t *testing.T) {
			assert.Equal(t, b, state.KeepBudget(b).Limits())
		})
	}
	t.Run("no limit is kept as 0", func(t *testing.T) {
		assert.Zero(t, state.KeepBudget(watchdog.Budget{WallClock: watchdog.NoLimit}).WallClockSeconds)
	})
	t.Run("the default is kept by its value", func(t *testing.T) {
		assert.InDelta(t, 14400, state.KeepBudget(watchdog.Budget{}).WallClockSeconds, 0)
	})
}

func TestLatest(t *testing.T) {
	dir := newDir(t)
	t.Run("without a session there is none", func(t *testing.T) {
		_, err := dir.Latest()
		require.ErrorIs(t, err, state.ErrNoSession)
	})
	first, second := newSession(t, dir), newSession(t, dir)
	t.Run("it is the one that was set last, and session.json is its file", func(t *testing.T) {
		for _, s := range []*state.Session{first, second, first, first} {
			require.NoError(t, dir.SetLatest(s.ID))
			id, err := dir.Latest()
			require.NoError(t, err)
			assert.Equal(t, s.ID, id)
			text, err := os.ReadFile(filepath.Join(dir.Path(), "session.json"))
			require.NoError(t, err)
			assert.Contains(t, string(text), s.ID)
		}
	})
	t.Run("a link that a killed process left half made is in nobody's way", func(t *testing.T) {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(dir.Path(), "sessions", second.ID, "link.tmp")))
		require.NoError(t, dir.SetLatest(second.ID))
	})
	t.Run("the directory can be moved", func(t *testing.T) {
		moved := dir.Path() + "-moved"
		require.NoError(t, os.Rename(dir.Path(), moved))
		_, err := os.Stat(filepath.Join(moved, "session.json"))
		require.NoError(t, err)
	})
	t.Run("a file in the link's place is an error that says what to do", func(t *testing.T) {
		other := newDir(t)
		require.NoError(t, os.WriteFile(filepath.Join(other.Path(), "session.json"), []byte("{}"), 0o600))
		_, err := other.Latest()
		require.ErrorIs(t, err, state.ErrCorrupt)
		assert.ErrorContains(t, err, "name one with -session")
	})
}

func TestValidID(t *testing.T) {
	for id, valid := range map[string]bool{
		state.NewID(time.Now()): true, "a": true, "A.b_c-9": true,
		"": false, ".": false, "..": false, ".a": false, "a/b": false, `a\b`: false, "a b": false, "é": false, "-a": false,
		"1234567890123456789012345678901234567": false, // one more than fits the narrowest column
	} {
		assert.Equal(t, valid, state.ValidID(id), "%q", id)
	}
}
