//go:build unix

package sqlite_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

// TestPermissions opens the store in a child process. If the tests run as root, the child runs as another user, because
// permissions do not apply to root.
func TestPermissions(t *testing.T) {
	for name, test := range map[string]struct {
		file, folder os.FileMode // a file of mode 0 is not there yet
		says         string
	}{
		"a read-only file":                {0o444, 0o777, "make the file writable"},
		"a file of another user":          {0o644, 0o777, "make the file and its folder writable"},
		"a file that may not be read":     {0o600, 0o777, "check the permissions"},
		"a file in a read-only folder":    {0o666, 0o555, "make the folder writable"},
		"a file in another user's folder": {0o666, 0o755, "make the file and its folder writable"},
		"a new file in such a folder":     {0, 0o755, "check the permissions"},
	} {
		t.Run(name+" is an error that says so, and nothing is written", func(t *testing.T) {
			if os.Geteuid() != 0 && (test.file == 0o644 || test.folder == 0o755) {
				t.Skip("there is no other user")
			}
			folder := sharedFolder(t)
			file := filepath.Join(folder, "events.db")
			if test.file != 0 {
				require.NoError(t, openAt(t, file).Close())
				chmod(t, file, test.file)
			}
			before := contents(t, folder)
			chmod(t, folder, test.folder)
			output, err := asAnotherUser(t, child(t, "open and append", file, "1")).CombinedOutput()
			chmod(t, folder, 0o777)
			for _, want := range []string{file, test.says} {
				require.Error(t, err)
				require.Contains(t, string(output), want)
			}
			require.Equal(t, before, contents(t, folder))
		})
	}
}

// TestPermissionsToRead reads as another user, who may write neither the file nor its folder.
func TestPermissionsToRead(t *testing.T) {
	for name, live := range map[string]bool{"that nobody has open": false, "that somebody writes to": true} {
		t.Run("a file "+name+" is read without the right to write, and nothing is written", func(t *testing.T) {
			folder := sharedFolder(t)
			file := filepath.Join(folder, "events.db")
			s := written(t, file)
			if !live {
				require.NoError(t, s.Close())
			}
			before := digests(t, file)
			for _, name := range files(t, file) {
				chmod(t, filepath.Join(folder, name), 0o444)
			}
			chmod(t, folder, 0o555)
			output, err := asAnotherUser(t, child(t, "read only", file)).CombinedOutput()
			chmod(t, folder, 0o777)
			require.NoError(t, err)
			require.Contains(t, string(output), "read 1 events and 1 sessions")
			require.Equal(t, before, digests(t, file))
		})
	}
	t.Run("a file that may not be read is an error that says so", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("there is no other user")
		}
		file := filepath.Join(sharedFolder(t), "events.db")
		require.NoError(t, written(t, file).Close())
		chmod(t, file, 0o600)
		output, err := asAnotherUser(t, child(t, "read only", file)).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(output), "check the permissions")
	})
}

// Open refuses a file that nobody may write, for root as well.
func TestReadOnlyForRoot(t *testing.T) {
	file := newFile(t)
	require.NoError(t, openAt(t, file).Close())
	chmod(t, file, 0o400)
	require.ErrorContains(t, second(sqlite.Open(t.Context(), file)), "is read-only")
	chmod(t, file, 0o600)
	chmod(t, filepath.Dir(file), 0o500)
	defer chmod(t, filepath.Dir(file), 0o700)
	require.ErrorContains(t, second(sqlite.Open(t.Context(), file)), "its folder is read-only")
}

// contents returns the digests of the files in a folder. It leaves out empty files and the index of the log (-shm),
// which SQLite creates for reading and which has no data of its own.
func contents(t *testing.T, folder string) string {
	t.Helper()
	var found strings.Builder
	for _, name := range files(t, filepath.Join(folder, "any")) {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		if len(content) > 0 && !strings.HasSuffix(name, "-shm") {
			fmt.Fprintf(&found, "%s %x\n", name, sha256.Sum256(content))
		}
	}
	return found.String()
}

// sharedFolder returns a folder that other users can reach.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	chmod(t, filepath.Dir(folder), 0o755)
	chmod(t, folder, 0o777)
	return folder
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(path, mode))
}

func asAnotherUser(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		return cmd
	}
	const nobody = 65534
	cmd.Path = copyOf(t, os.Args[0])
	cmd.Dir = filepath.Dir(cmd.Path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// copyOf copies the test binary to a folder where the other user may run it.
func copyOf(t *testing.T, program string) string {
	t.Helper()
	from, err := os.Open(program)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(sharedFolder(t), "program"), os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	require.NoError(t, second(io.Copy(to, from)))
	require.NoError(t, to.Close())
	return to.Name()
}
