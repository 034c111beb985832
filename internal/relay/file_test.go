package relay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

func TestWatchFile(t *testing.T) {
	open := func(t *testing.T) (*os.File, *relay.File) {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		watched, ok := relay.WatchFile(f)
		require.True(t, ok)
		t.Cleanup(func() { require.NoError(t, watched.Close()) })
		return f, watched
	}
	requireUnchanged := func(t *testing.T, watched *relay.File) {
		t.Helper()
		at, changed := watched.Changed()
		require.False(t, changed)
		require.Zero(t, at)
	}
	set := func(t *testing.T, f *os.File, at time.Time) {
		t.Helper()
		require.NoError(t, os.Chtimes(f.Name(), at, at))
	}
	t.Run("a file that grew has changed, once", func(t *testing.T) {
		f, watched := open(t)
		requireUnchanged(t, watched)
		begin := time.Now()
		_, err := f.WriteString("x")
		require.NoError(t, err)
		at, changed := watched.Changed()
		assert.True(t, changed)
		assert.WithinRange(t, at, begin, time.Now())
		requireUnchanged(t, watched)
	})
	t.Run("the change has the file's time if that is between the calls", func(t *testing.T) {
		f, watched := open(t)
		written := time.Now()
		set(t, f, written)
		eventually(t, func() bool { return time.Since(written) > 20*time.Millisecond }, "time passes")
		at, changed := watched.Changed()
		assert.True(t, changed)
		assert.WithinDuration(t, written, at, time.Millisecond)
	})
	t.Run("the change has the current time if the file's is not between the calls", func(t *testing.T) {
		f, watched := open(t)
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			begin := time.Now()
			set(t, f, begin.Add(off))
			at, changed := watched.Changed()
			assert.True(t, changed)
			assert.WithinRange(t, at, begin, time.Now())
		}
	})
	t.Run("a truncated file has changed", func(t *testing.T) {
		f, watched := open(t)
		_, err := f.WriteString("xx")
		require.NoError(t, err)
		_, changed := watched.Changed()
		require.True(t, changed)
		require.NoError(t, f.Truncate(1))
		_, changed = watched.Changed()
		assert.True(t, changed)
	})
	t.Run("a file that grew within a tick of the file system's clock has changed", func(t *testing.T) {
		f, watched := open(t)
		tick := time.Now().Add(-time.Hour)
		set(t, f, tick)
		_, changed := watched.Changed()
		require.True(t, changed)
		_, err := f.WriteString("x")
		require.NoError(t, err)
		set(t, f, tick)
		_, changed = watched.Changed()
		assert.True(t, changed)
	})
	t.Run("a host may close its file", func(t *testing.T) {
		f, watched := open(t)
		require.NoError(t, f.Close())
		require.NoError(t, os.WriteFile(f.Name(), []byte("x"), 0o600))
		_, changed := watched.Changed()
		assert.True(t, changed)
	})
	t.Run("only a regular file is watched", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		dir, err := os.Open(t.TempDir())
		require.NoError(t, err)
		defer dir.Close()
		require.NoError(t, r.Close())
		for _, f := range []*os.File{nil, r, w, null, dir} {
			_, ok := relay.WatchFile(f)
			assert.False(t, ok)
		}
	})
}
