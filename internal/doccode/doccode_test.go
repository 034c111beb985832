package doccode_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMarkdown(t *testing.T) {
	const text = "Call `fmt.Println(\"a\")`, not `fmt.Println`, `kill(-pid)` or `a b`.\n" +
		"```go\nx := 1\n\nprint(x)\n```\n" +
		"```sh\ngo `fmt.Print()`\n```\n" +
		"| `http.Client{}` | `Client` |\n"
	require.Equal(t, []doccode.Snippet{
		{File: "a.md", Line: 1, Code: `fmt.Println("a")`},
		{File: "a.md", Line: 3, Code: "x := 1\n\nprint(x)"},
		{File: "a.md", Line: 10, Code: "_ = http.Client{}"},
	}, doccode.Markdown("a.md", text))
}

func TestComment(t *testing.T) {
	const text = "// Package a is:\n//\n" +
		"//\tx := 1\n//\n//\tprint(x)\n//\n" +
		"// and\n//\ty := 2\n" +
		"// but not:\n//\ta  b\n" +
		"package a\n"
	require.Equal(t, []doccode.Snippet{
		{File: "doc.go", Line: 3, Code: "x := 1\n\nprint(x)"},
		{File: "doc.go", Line: 8, Code: "y := 2"},
	}, doccode.Comment("doc.go", text))
}

func newChecker(t *testing.T) *doccode.Checker {
	t.Helper()
	const host = "package host\n\nimport \"io\"\n\nvar out io.Writer\n"
	checker, err := doccode.New(".", map[string]string{"fmt": "fmt", "url": "net/url"}, "host.go", host)
	require.NoError(t, err)
	return checker
}

func TestCheckAccepts(t *testing.T) {
	for sentence, code := range map[string]string{
		"statements that use the host and a package": "n, err := fmt.Fprintln(out)\nif err != nil {\n\treturn err\n}",
		"declarations": "func show() { fmt.Fprintln(out) }",
		"a program":    "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }",
	} {
		t.Run(sentence, func(t *testing.T) {
			require.NoError(t, newChecker(t).Check(t.Context(), []doccode.Snippet{{File: "docs/a.md", Line: 3, Code: code}}))
		})
	}
}

func TestCheckRejects(t *testing.T) {
	const program = "package main\n\n"
	for sentence, test := range map[string]struct{ code, want string }{
		"a function that does not exist":    {"x := 1\nfmt.Printn(x)", "docs/a.md:4:5: undefined: fmt.Printn"},
		"a variable that nobody declares":   {"fmt.Println(nobody)", "docs/a.md:3:13: undefined: nobody"},
		"a field of the wrong type":         {"\n_ = url.URL{Host: 1}", "docs/a.md:4:19: cannot use 1"},
		"an unused variable further inside": {"if true {\n\tx := 1\n}", "docs/a.md:4:2: declared and not used: x"},
		"what is not Go":                    {"x := := 1", "docs/a.md:3:6: expected operand, found ':='"},
		"a program that uses the host":      {program + "func main() { _ = out }", "docs/a.md:5:19: undefined: out"},
		"a program with an unused import":   {program + "import \"fmt\"\n\nfunc main() {}", "docs/a.md:5:8: \"fmt\""},
		"a program without a main":          {program, "docs/a.md:3:9: a program without a func main"},
		"a package that does not exist":     {program + "import \"no/where\"\n\nfunc main() {}", "no/where is not in std"},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := newChecker(t).Check(t.Context(), []doccode.Snippet{{File: "docs/a.md", Line: 3, Code: test.code}})
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestCheckReportsEverySnippet(t *testing.T) {
	err := newChecker(t).Check(t.Context(), []doccode.Snippet{
		{File: "a.md", Line: 1, Code: "fmt.A()\nfmt.B()"},
		{File: "a.md", Line: 5, Code: "}"},
		{File: "b.md", Line: 1, Code: "fmt.C()"},
	})
	require.ErrorContains(t, err, "a.md:1:5: undefined: fmt.A")
	require.ErrorContains(t, err, "a.md:2:5: undefined: fmt.B")
	require.ErrorContains(t, err, "a.md:6:1: expected declaration")
	require.ErrorContains(t, err, "b.md:1:5: undefined: fmt.C")
}
