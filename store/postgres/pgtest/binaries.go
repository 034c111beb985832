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

// ErrNotInstalled says that PostgreSQL is not installed or cannot run here. [New] wraps it.
var ErrNotInstalled = errors.New("not installed")

// find returns the folder with the server's programs. It takes initdb and postgres from one folder, so that they have
// one version.
func find(ctx context.Context) (folder string, err error) {
	for _, folder := range folders(ctx) {
		if isProgram(filepath.Join(folder, "initdb")) && isProgram(filepath.Join(folder, "postgres")) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("%w: initdb and postgres are in none of the usual places: "+
		"install the server (Debian: postgresql) or put them in PATH", ErrNotInstalled)
}

// folders lists the folders of PATH, those where Debian and PostgreSQL itself install, and the one of pg_config.
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
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // 0 sorts as the oldest
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && runtime.GOOS != "windows"
}
