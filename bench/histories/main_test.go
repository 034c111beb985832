//go:build linux

package histories_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
)

// asChild makes the test binary a process that calls a store. Its value is a job as JSON.
const asChild = "WATCHDOG_HISTORIES_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	_ = flag.Set("test.parallel", "6") // they wait for servers and slots most of the time
	goleak.VerifyTestMain(m)
}
