package clients_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain installs the clients, once for all tests. Where they cannot be had there is nothing to test, which is said.
func TestMain(m *testing.M) {
	if why := install(); why != "" {
		fmt.Println("skipped: " + why)
		return
	}
	for _, c := range all {
		if node < c.node {
			fmt.Printf("skipped: %s needs node %d, and this is %d\n", c.name, c.node, node)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(filepath.Dir(program))
	os.Exit(code)
}

var (
	clients string // the folder in which they are installed
	program string // watchdog
	node    int    // the major version of node
)

// install installs what package-lock.json says into a folder of the user's cache, and builds watchdog. It returns why
// there is nothing to test.
func install() (why string) {
	version, err := exec.Command("node", "--version").Output()
	if err != nil {
		return "there is no node here; install it with apt-get install nodejs npm"
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	node, _ = strconv.Atoi(major)
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		_, _ = sum.Write(must(os.ReadFile(name)))
	}
	_, _ = sum.Write(version)
	cache := must(os.UserCacheDir())
	clients = filepath.Join(cache, "watchdog-clients", hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(clients, "installed")); err != nil {
		if why := download(); why != "" {
			return why
		}
	}
	for _, path := range must(filepath.Glob("testdata/*.mjs")) {
		check(os.WriteFile(filepath.Join(clients, filepath.Base(path)), must(os.ReadFile(path)), 0o600))
	}
	program = filepath.Join(must(os.MkdirTemp("", "clients")), "watchdog")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = "../../cmd/watchdog", append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return ""
}

// download has npm install the clients.
func download() (why string) {
	began := time.Now()
	check(os.RemoveAll(clients))
	check(os.MkdirAll(clients, 0o700))
	for _, name := range []string{"package.json", "package-lock.json"} {
		check(os.WriteFile(filepath.Join(clients, name), must(os.ReadFile(name)), 0o600))
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
	npm.Dir = clients
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Sprintf("npm cannot install the clients: %v\n%s", err, out)
	}
	check(os.WriteFile(filepath.Join(clients, "installed"), nil, 0o600))
	fmt.Printf("npm installed the clients in %d s\n", int(time.Since(began).Seconds()))
	return ""
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
