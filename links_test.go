package watchdog_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinks counts the packages that a host links with one of ours, the standard library included. If it fails, see
// with `go list -deps` what is new. If a new version of Go brought it, raise the figure. If only some hosts need it, as
// they do net/http, put what imports it behind an interface or into a package of its own, such as watchdoghttp.
func TestLinks(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	for pkg, most := range map[string]int{".": 130, "./stall": 144, "./converge": 131} { // with Go 1.26: 121, 135, 122
		t.Run(pkg, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
			require.NoError(t, err)
			linked := strings.Fields(string(out))
			require.NotContains(t, linked, "net/http")
			require.NotContains(t, linked, "net")
			require.LessOrEqual(t, len(linked), most, "the comment of this test says what to do; linked are %q", linked)
		})
	}
}
