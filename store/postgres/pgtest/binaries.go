package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is wrapped by what [New] returns where the programs that it needs are not installed, or cannot be used here.
var ErrNotInstalled = errors.New("not installed")

// find returns the folder that has the server's programs: initdb and postgres are of one version only if they are in one folder.
func find(ctx context.Context) (folder string, err error) {
	for _, folder := range folders(ctx) {
		if isProgram(filepath.Join(folder, "initdb")) && isProgram(filepath.Join(folder, "postgres")) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("%w: initdb and postgres are in none of the usual places: install the server (Debian: postgresql) or put them in PATH", ErrNotInstalled)
}

// folders are where PATH leads, where Debian and the project itself install it, and where pg_config says.
func folders(ctx context.Context) []string {
	all := filepath.SplitList(os.Getenv("PATH"))
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	slices.SortFunc(versions, func(a, b string) int { return version(b) - version(a) })
	all = append(append(all, versions...), "/usr/local/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin")
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		all = append(all, strings.TrimSpace(string(out)))
	}
	return all
}

func version(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // 0 is the oldest
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && runtime.GOOS != "windows"
}
