package story_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/story"
)

// TestDocumented expects each field of the JSON in the documentation.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## The story of a run\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range fieldsOf(reflect.TypeFor[story.Story](), map[string]bool{}) {
		assert.Contains(t, section, "`"+name+"`")
	}
}

// fieldsOf are the JSON names of a struct and of those in it.
func fieldsOf(of reflect.Type, names map[string]bool) map[string]bool {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return names
	}
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names[name] = true
			fieldsOf(of.Field(i).Type, names)
		}
	}
	return names
}
