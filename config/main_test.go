package config_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/internal/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longList is a list of all keys or variables of a large block. Golden files have only its first name: each new setting
// would change many.
var longList = regexp.MustCompile(`(the keys|the variables) ([^ \n]+,)( [^ \n]+,){5,} [^ \n]+`)

// compare compares a text with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), longList.ReplaceAllString(got, "$1 $2 …"))
}

// set is what a host prints of a config, but its defaults.
func set(c *config.Config) string {
	return regexp.MustCompile(`(?m)^.* default\n`).ReplaceAllString(c.String(), "")
}

// environment returns a Lookup in a map.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}

// parse returns the limits of a text and variables that are right.
func parse(t *testing.T, text string, v variables) *config.Config {
	t.Helper()
	c, err := config.Parse(file, []byte(text), environment(v))
	require.NoError(t, err, text)
	return c
}
