package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestString(t *testing.T) {
	const path = "testdata/limits.yaml"
	var all strings.Builder
	for _, test := range []struct {
		sentence, path string
		variables      variables
	}{
		{"limits of a file name their lines", path, nil},
		{
			"a variable that overrides a file is named", path,
			variables{"WATCHDOG_WARN_AT": "0.9", "WATCHDOG_RESERVE_SECONDS": "0"},
		},
		{"a limit that is switched off says so", "", variables{wallClockVariable: "0", "WATCHDOG_WARN_AT": "0"}},
		{"a variable may repeat the default in its way", "", variables{wallClockVariable: "14400"}},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Load(test.path, environment(test.variables))
			require.NoError(t, err)
			fmt.Fprintf(&all, "%s:\n%s", test.sentence, set(c))
		})
	}
	compare(t, "limits_set.golden", all.String())
}

// TestZeroConfig expects the defaults of a Config that nobody read.
func TestZeroConfig(t *testing.T) {
	var c config.Config
	loaded := parse(t, "", nil)
	require.Equal(t, loaded.Limits(), c.Limits())
	require.Equal(t, loaded.String(), c.String())
	compare(t, "limits_default.golden", c.String())
}

// document returns pages of the documentation, one after the other.
func document(t *testing.T, names ...string) string {
	t.Helper()
	var pages strings.Builder
	for _, name := range names {
		text, err := os.ReadFile("../docs/" + name)
		require.NoError(t, err)
		pages.Write(text)
	}
	return pages.String()
}

// TestReference compares the one generated page with the table of settings. Write it with -update.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Configuration: all settings\n\nGenerated from the table of settings in the code. " +
		"[Configuration](configuration.md) says how a file is read,\nand links the pages that explain these. `watchdog check --schema` prints the same as a JSON schema for editors.\n")
	var c config.Config
	last := ""
	for _, s := range c.Limits() {
		if block, _, _ := strings.Cut(s.Key, "."); block != last {
			last = block
			page.WriteString("\n## " + block + "\n\n| key | variable | default | allowed | what it is |\n|---|---|---|---|---|\n")
		}
		variable := "none"
		if s.Variable != "" {
			variable = "`" + s.Variable + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", s.Key, variable, s.Value, s.Allowed, s.Help)
	}
	page.WriteString("\n## steps\n\nA stall block of a step, of `defaults` or of a `completion_check` has the keys of " +
		"`stall`, without variables, and these:\n\n| key | default | allowed | what it is |\n|---|---|---|---|\n")
	check := parse(t, "completion_check: {}\n", nil)
	for _, s := range check.Step("x").Check.Limits() {
		key := strings.TrimPrefix(s.Key, "steps.x.completion_check.")
		if !strings.Contains(page.String(), "`"+key+"`") {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", key, s.Value, s.Allowed, s.Help)
		}
	}
	compare(t, "../../docs/configuration-reference.md", page.String())
}

func TestDocumentedExamples(t *testing.T) {
	documentation := document(t, "configuration.md")

	t.Run("the file is read", func(t *testing.T) {
		_, example, found := strings.Cut(documentation, "```yaml\n")
		require.True(t, found)
		example, _, _ = strings.Cut(example, "```")
		c, err := config.Parse("configuration.md", []byte(example), config.NoEnvironment)
		require.NoError(t, err)
		require.Equal(t, watchdog.DefaultWallClock, c.Budget.WallClock)
		require.NotNil(t, c.Stall.Probe)
		require.Equal(t, sweep.DefaultInterval, c.Sweep.Interval)
	})
	t.Run("Parse returns the errors", func(t *testing.T) {
		text := "runtime_controls:\n  session_wall_clock_seconds: \"14400\"\n  reserve_second: 60\n"
		_, err := config.Parse("limits.yaml", []byte(text), environment(map[string]string{"WATCHDOG_WARN_AT": "0.5,80"}))
		brief := longList.ReplaceAllString(err.Error(), "$1 $2 …")
		require.Contains(t, documentation, "```\n"+brief+"\n```")
	})
	t.Run("the limits are printed", func(t *testing.T) {
		text := "agents:\n  model: local\n\nruntime_controls:\n  session_wall_clock_seconds: 5400\n"
		c := parse(t, text, map[string]string{"WATCHDOG_WARN_AT": "0.9"})
		require.Contains(t, documentation, "```\n"+set(c)+"```")
	})
}

// fits reports whether a value of YAML fits a schema. It knows the keywords that the schema has, and fails on others.
func fits(t *testing.T, schema map[string]any, v any) bool {
	t.Helper()
	for keyword, want := range schema {
		ok := true
		switch keyword {
		case "anyOf":
			ok = slices.ContainsFunc(want.([]any), func(of any) bool { return fits(t, of.(map[string]any), v) })
		case "items":
			list, _ := v.([]any)
			ok = !slices.ContainsFunc(list, func(v any) bool { return !fits(t, want.(map[string]any), v) })
		case "uniqueItems":
			ok = areDifferent(v)
		case "properties", "additionalProperties":
			ok = fitsKeys(t, schema, v)
		case "$schema", "title", "description", "definitions":
		default:
			ok = fitsAlone(t, keyword, want, v)
		}
		if !ok {
			return false
		}
	}
	return true
}

// fitsAlone is fits for a keyword about the value itself.
func fitsAlone(t *testing.T, keyword string, want, v any) bool {
	t.Helper()
	number, isNumber := toNumber(v)
	list, isList := v.([]any)
	text, isText := v.(string)
	switch keyword {
	case "type":
		return isOfType(v, want)
	case "const":
		return isNumber && number == want
	case "enum":
		return slices.Contains(want.([]any), v)
	case "pattern":
		return !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		return !isText || float64(utf8.RuneCountInString(text)) >= want.(float64)
	case "minItems", "maxItems":
		return !isList || isWithin(keyword[:3]+"imum", float64(len(list)), want.(float64))
	}
	require.Contains(t, []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}, keyword)
	return !isNumber || isWithin(keyword, number, want.(float64))
}

func isWithin(keyword string, number, bound float64) bool {
	return map[string]bool{
		"minimum": number >= bound, "maximum": number <= bound,
		"exclusiveMinimum": number > bound, "exclusiveMaximum": number < bound,
	}[keyword]
}

func areDifferent(v any) bool {
	list, _ := v.([]any)
	for i, item := range list {
		if slices.ContainsFunc(list[:i], func(before any) bool { return reflect.DeepEqual(before, item) }) {
			return false
		}
	}
	return true
}

func fitsKeys(t *testing.T, schema map[string]any, v any) bool {
	t.Helper()
	object, _ := v.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, each := range object {
		of, known := properties[name].(map[string]any)
		if !known {
			of, known = schema["additionalProperties"].(map[string]any)
		}
		if known && !fits(t, of, each) || !known && schema["additionalProperties"] == false {
			return false
		}
	}
	return true
}

func toNumber(v any) (float64, bool) {
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

func isOfType(v, want any) bool {
	number, isNumber := toNumber(v)
	_, isText := v.(string)
	_, isList := v.([]any)
	_, isObject := v.(map[string]any)
	_, isBool := v.(bool)
	is := map[string]bool{
		"null": v == nil, "number": isNumber, "integer": isNumber && number == float64(int64(number)), "string": isText,
		"array": isList, "object": isObject, "boolean": isBool,
	}
	if types, many := want.([]any); many {
		return is[types[0].(string)] || is[types[1].(string)]
	}
	return is[want.(string)]
}

// schema returns the schema with its one definition where it is used.
func schema(t *testing.T) map[string]any {
	t.Helper()
	var schema map[string]any
	require.NoError(t, json.Unmarshal(config.Schema(), &schema))
	stall, err := json.Marshal(schema["definitions"].(map[string]any)["stall"])
	require.NoError(t, err)
	whole := strings.ReplaceAll(string(config.Schema()), `"$ref": "#/definitions/stall"`, `"anyOf": [`+string(stall)+"]")
	require.NoError(t, json.Unmarshal([]byte(whole), &schema))
	return schema
}

func fromYAML(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v), text)
	return v
}

// TestSchemaAccepts expects every file in the documents and in testdata, and files with every setting, to fit.
func TestSchemaAccepts(t *testing.T) {
	texts := map[string]string{"sweep": everySweep, "stall": everyStall, "controls": everySetting, "tuned": tuned}
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	fenced := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, example := range fenced.FindAllStringSubmatch(string(text), -1) {
			texts[page+example[1][:20]] = example[1]
		}
	}
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	require.Greater(t, len(texts), 8)
	schema := schema(t)
	for name, text := range texts {
		require.True(t, fits(t, schema, fromYAML(t, text)), "%s:\n%s", name, text)
	}
	for _, text := range []string{
		"runtime_controls: {spend: {tools: {a: null, b: 5}}}",
		"runtime_controls: {spend: {cost: '0'}}",
		"runtime_controls: {spend: {cost: 0.50 EUR, reserve: {cost: '0.00'}}}", "stall: {no_output_timeout: 1.5h30m1.5us}",
	} {
		parse(t, text, nil)
		require.True(t, fits(t, schema, fromYAML(t, text)), text)
	}
}

// TestSchemaRefuses expects what Parse refuses by the form alone not to fit.
func TestSchemaRefuses(t *testing.T) {
	schema := schema(t)
	for _, text := range []string{
		"runtime_controls: {idle_timeout: 5}", "runtime_controls: 5", "runtime_controls: {idle_timeout_seconds: 5m}",
		"runtime_controls: {idle_timeout_seconds: -1}", "runtime_controls: {warn_at: [1]}", "sweep: {enabled: 1}",
		"runtime_controls: {spend: {cost: 5}}", "runtime_controls: {spend: {tools: {bash: 0.5}}}",
		"runtime_controls: {ladders: {idle: [wrap_up]}}", "runtime_controls: {max_tick_duration_minutes: 61}",
		"stall: {no_output_timeout: 5}", "stall: {enabled: false}", "stall: {probe: {command: []}}", "stall: {grace_int: 5s}",
		"stall: {stall_threshold: 1}", "sweep: {keeper: {threshold: 5m}}", "steps: {a: {stall: {on_stall: {action: kill}}}}",
		"steps: [{id: a, stall: {no_output: 5m}}]", "completion_check: {decision_file: [a]}",
		"runtime_controls: {tick_grace_seconds: 0}", "runtime_controls: {spend: {cost: 05 EUR}}",
		"runtime_controls: {warn_at: [0.5, 0.5]}", "runtime_controls: {events: {material: [a, a]}}",
		"stall: {no_output_timeout: 30m1h}", "stall: {no_output_timeout: '0'}", "sweep: {interval: 0}",
		"sweep: {keeper: {promise: 0}}",
	} {
		require.False(t, fits(t, schema, fromYAML(t, text)), text)
		_, err := config.Parse(file, []byte(text), config.NoEnvironment)
		require.Error(t, err, text)
	}
}

// TestSchemaHasEverySetting follows the path of each setting.
func TestSchemaHasEverySetting(t *testing.T) {
	c, err := config.Parse(file, []byte("completion_check: {}\n"),
		config.NoEnvironment)
	require.NoError(t, err)
	step := c.Step("x")
	schema := schema(t)
	for _, s := range append(c.Limits(), append(step.Limits(), step.Check.Limits()...)...) {
		at := schema
		for name := range strings.SplitSeq(s.Key, ".") {
			require.NotNil(t, at, s.Key)
			at = inside(at, name)
		}
		require.Contains(t, at["description"], s.Allowed, s.Key)
		require.NotEmpty(t, s.Help, s.Key)
	}
}

// inside returns the schema of a key in that of a mapping, of a list, or of what may be either.
func inside(schema map[string]any, name string) map[string]any {
	forms, _ := schema["anyOf"].([]any)
	if len(forms) == 1 {
		return inside(forms[0].(map[string]any), name)
	}
	for _, form := range append(forms, schema, schema["items"]) {
		of, _ := form.(map[string]any)
		properties, _ := of["properties"].(map[string]any)
		items, _ := of["items"].(map[string]any)
		for _, found := range []any{properties[name], of["additionalProperties"], items} {
			if found, is := found.(map[string]any); is && found != nil {
				return found
			}
		}
	}
	return nil
}
