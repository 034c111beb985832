package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

func TestLoad(t *testing.T) {
	t.Run("an empty path means no file", func(t *testing.T) {
		c, err := config.Load("", config.NoEnvironment)
		require.NoError(t, err)
		require.Equal(t, watchdog.Budget{}, c.Budget)
	})
	t.Run("a path that does not exist is an error", func(t *testing.T) {
		_, err := config.Load(filepath.Join(t.TempDir(), "missing.yaml"), config.NoEnvironment)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "missing.yaml")
	})
	t.Run("a path that is a folder is an error", func(t *testing.T) {
		dir := t.TempDir()
		_, err := config.Load(dir, config.NoEnvironment)
		require.ErrorContains(t, err, dir)
	})
	t.Run("an error in a file names its path", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		require.NoError(t, os.WriteFile(path, []byte("runtime_controls: 5\n"), 0o600))
		_, err := config.Load(path, config.NoEnvironment)
		require.ErrorContains(t, err, path+":1: runtime_controls: 5 is not a mapping")
	})
	t.Run("a file that never ends is too large", func(t *testing.T) {
		if _, err := os.Stat("/dev/zero"); err != nil {
			t.Skip("this system has no /dev/zero")
		}
		_, err := config.Load("/dev/zero", config.NoEnvironment)
		require.ErrorContains(t, err, "larger than 1 MiB")
	})
	t.Run("the environment of the process is the default one", func(t *testing.T) {
		t.Setenv("WATCHDOG_SESSION_WALL_CLOCK_SECONDS", "90")
		c, err := config.Load("", nil)
		require.NoError(t, err)
		require.Equal(t, 90*time.Second, c.Budget.WallClock)
	})
	t.Run("errors of a text without a name have the line", func(t *testing.T) {
		_, err := config.Parse("", []byte("runtime_controls: 5\n"), config.NoEnvironment)
		require.ErrorContains(t, err, "line 1: runtime_controls: 5 is not a mapping")
	})
}
