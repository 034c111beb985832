package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(content string) { require.NoError(t, state.WriteFile(path, []byte(content))) }
	t.Run("the file has the content", func(t *testing.T) {
		write("one")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "one", string(text))
	})
	t.Run("a reader with the old file open still reads all of it", func(t *testing.T) {
		old, err := os.Open(path)
		require.NoError(t, err)
		defer old.Close()
		write("two")
		text := make([]byte, 10)
		n, err := old.Read(text)
		require.NoError(t, err)
		assert.Equal(t, "one", string(text[:n]))
	})
	t.Run("writing the same content keeps the file", func(t *testing.T) {
		before, err := os.Stat(path)
		require.NoError(t, err)
		write("two")
		after, err := os.Stat(path)
		require.NoError(t, err)
		assert.True(t, os.SameFile(before, after))
	})
	t.Run("a directory at the path is an error and no temporary file stays", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "file"), 0o700))
		require.Error(t, state.WriteFile(filepath.Join(dir, "file"), nil))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, entries, 1)
	})
	t.Run("a missing directory is an error", func(t *testing.T) {
		require.ErrorIs(t, state.WriteFile(filepath.Join(t.TempDir(), "a", "b"), nil), os.ErrNotExist)
	})
}
