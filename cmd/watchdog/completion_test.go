package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	main "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/shells"
)

// exampleLine has a flag and an argument of each kind, with texts that shells and roff would misread.
type exampleLine struct {
	Store string `placeholder:"URL" env:"EXAMPLE_STORE" help:"It's [a] store: \\ or $HOME."`
	JSON  bool   `name:"json" short:"j" help:"'JSON' at the start."`

	Walk exampleWalk `cmd:"" help:"Walk a way. Slowly."`
	Run  struct {
		Dir     string   `type:"existingdir" help:".A folder at the start."`
		Pick    string   `enum:"left,right" default:"left" help:"Pick one."`
		Command []string `arg:"" optional:"" passthrough:"partial" help:"The command."`
	} `cmd:"" help:"Run a command."`
	Secret struct{} `cmd:"" hidden:"" help:"Not shown."`
}

type exampleWalk struct {
	Map   []string `type:"path" short:"m" placeholder:"FILE" help:"A map."`
	Quiet bool     `hidden:"" help:"Not shown."`
	Where string   `arg:"" type:"path" help:"Where to."`
}

func (exampleWalk) Help() string {
	return "Walks.\n\nExamples:\n  example walk home\n  .example walk -m 'map' away"
}

func exampleModel(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&exampleLine{}, kong.Name("example"), kong.Description("Show how it is done.\n\nAnd more."))
	require.NoError(t, err)
	return parser.Model
}

func TestGenerated(t *testing.T) {
	t.Parallel()
	for name, generate := range map[string]func(*kong.Application) string{
		"completion.bash": shells.Bash, "completion.zsh": shells.Zsh, "completion.fish": shells.Fish,
		"man": shells.Man,
	} {
		t.Run(name+" is as it was", func(t *testing.T) { compare(t, name, generate(exampleModel(t))) })
		t.Run(name+" has all commands and flags of the program", func(t *testing.T) {
			command := strings.Fields(strings.Replace(name, ".", " ", 1))
			o := program(t, command...)
			require.Zero(t, o.status, o.stderr)
			require.Equal(t, generate(main.Model()), o.stdout)
			text := strings.ReplaceAll(o.stdout, `\-`, "-")
			for _, node := range main.Model().Leaves(true) {
				require.Contains(t, text, node.Name)
				for _, f := range node.Flags {
					require.Contains(t, text, f.Name)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, node := range main.Model().Leaves(true) {
		t.Run(node.Name+" has help with examples, in 80 columns", func(t *testing.T) {
			require.Contains(t, node.Detail, "Examples:\n  ")
			require.Contains(t, node.Detail, "watchdog "+node.Name)
			for line := range strings.SplitSeq(node.Detail, "\n") {
				require.LessOrEqual(t, len(line), 82, line)
			}
			o := program(t, node.Name, "--help")
			require.Zero(t, o.status)
			require.Contains(t, o.stdout, "Examples:\n")
		})
	}
	for _, node := range main.Model().Leaves(false) {
		require.Nil(t, node.Parent.Parent, "the completions know commands without commands of their own")
	}
}

// shell runs a script with a shell, or skips the test.
func shell(t *testing.T, script string, command ...string) string {
	t.Helper()
	path, err := exec.LookPath(command[0])
	if err != nil {
		t.Skip("the shell is not installed:", err)
	}
	cmd := exec.CommandContext(t.Context(), path, command[1:]...)
	cmd.Stdin, cmd.Dir = strings.NewReader(script), t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	return string(output)
}

func TestBash(t *testing.T) {
	t.Parallel()
	script := file(t, "_completion", shells.Bash(exampleModel(t)))
	for words, want := range map[string]string{ // as bash divides them
		"example ":                               "walk run --help --store --json",
		"example w":                              "walk",
		"example --js":                           "--json",
		"example walk -":                         "--help --store --json --map",
		"example -j walk --m":                    "--map",
		"example --store sqlite : /x run --":     "--help --store --json --dir --pick",
		"example --store = sqlite : /x run --pi": "--pick",
		"example --store walk r":                 "run",
		"example --store ":                       "",
		"example run --pick ":                    "left right",
		"example run --pick = r":                 "right",
		"example run --pick =":                   "left right",
		"example run --pick left -- compge":      "compgen",
		"example run compge":                     "compgen",
		"example run cat --pi":                   "",
		"example walk --pick ":                   "",
		"example sec":                            "",
	} {
		t.Run(words, func(t *testing.T) {
			got := shell(t, "source "+script+`
				COMP_WORDS=(`+strings.TrimSuffix(words, " ")+`)
				[[ "$WORDS" == *" " ]] && COMP_WORDS+=("")
				COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
				_example
				printf '%s\n' "${COMPREPLY[@]}"`, "env", "WORDS="+words, "bash", "--norc", "--noprofile")
			require.Equal(t, want, strings.TrimSpace(strings.ReplaceAll(got, "\n", " ")))
		})
	}
	t.Run("the program's own loads", func(t *testing.T) {
		got := shell(t, "source "+file(t, "_completion", program(t, "completion", "bash").stdout)+"\ncomplete -p watchdog\n",
			"bash", "--norc", "--noprofile")
		require.Contains(t, got, "_watchdog")
	})
}

// offer is a zsh that says what a completion offers for a line, instead of completing it.
const offer = `zmodload zsh/zpty
touch lost
cat > .offer <<'EOF'
PROMPT= && stty -echo
autoload -U compinit && compinit -D
source $COMPLETION
juggle7() {}
offered() {
	compadd() { local -a all; builtin compadd -O all "$@"; (( $#all )) && print -rl -- "<"${^all}">"; builtin compadd "$@" }
	_main_complete
	unfunction compadd
	compstate[insert]= compstate[list]=
	print DO''NE
}
zle -C offered complete-word offered && bindkey '^T' offered && print REA''DY
EOF
zpty z zsh -f -i
zpty -w z 'source ./.offer'
zpty -r z said '*READY*'
zpty -w -n z "$LINE"$'\x14'
zpty -r z said '*DONE*'
print -r -- "$said"
`

func TestZshOffers(t *testing.T) {
	example, own := file(t, "_completion", shells.Zsh(exampleModel(t))), file(t, "_completion", program(t, "completion", "zsh").stdout)
	for line, want := range map[string]string{
		"example ":                                         "<walk> <run>",
		"example --js":                                     "<--json>",
		"example run --pick ":                              "<left> <right>",
		"example run --pick=":                              "<left> <right>",
		"example --store x walk -m lo":                     "<lost>",
		"example --store ":                                 "",
		"example run -- juggle":                            "<juggle7>",
		"example --store x run --pick left -- juggle":      "<juggle7>",
		"example --store x run --pick left -- juggle7 los": "<lost>",
		"watchdog run --activity ":                         "<output> <stdout> <stderr>",
		"watchdog sessions --paren":                        "<--parent>",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			file := example
			if strings.HasPrefix(line, "watchdog") {
				file = own
			}
			got := shell(t, "export COMPLETION="+file+"\nLINE='"+line+"'\n"+offer, "zsh", "-f")
			var offered []string
			for _, word := range regexp.MustCompile(`<[^<>\r\n]+>`).FindAllString(got, -1) {
				if !slices.Contains(offered, word) {
					offered = append(offered, word)
				}
			}
			require.Equal(t, want, strings.Join(offered, " "))
		})
	}
}

func TestFish(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, line, want string }{
		"a command of the example": {shells.Fish(exampleModel(t)), "example wa", "walk\tWalk a way"},
		"a value of the example":   {shells.Fish(exampleModel(t)), "example run --pick l", "left\tPick one"},
		"a value, and no file":     {shells.Fish(exampleModel(t)), "example run --pick ", "left\tPick one\nright\tPick one"},
		"a value that can be any":  {shells.Fish(exampleModel(t)), "example --store ", ""},
		"a file of the example":    {shells.Fish(exampleModel(t)), "example walk -m lo", "lost"},
		"a command after --":       {shells.Fish(exampleModel(t)), "example run -- juggle", "juggle7\tcommand"},
		"what follows that":        {shells.Fish(exampleModel(t)), "example run juggle7 no", "now"},
		"a command after flags": {
			shells.Fish(exampleModel(t)), "example --store x run -j --dir y --pick left -- juggle7 no", "now",
		},
		"a flag of the program": {program(t, "completion", "fish").stdout, "watchdog sessions --paren", "--parent\tOnly the layers of this run"},
	} {
		t.Run(name+" is completed", func(t *testing.T) {
			const prepare = "touch lost right-file; echo >juggle7; chmod +x juggle7; set PATH . $PATH; complete -c juggle7 -f -a now\nsource "
			got := shell(t, prepare+file(t, "_completion", test.text)+"\ncomplete -C "+`"`+test.line+`"`+"\n", "fish", "--no-config")
			require.Equal(t, test.want, strings.TrimSpace(got))
		})
	}
}

func TestMan(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]*kong.Application{"the example": exampleModel(t), "the program's own": main.Model()} {
		t.Run(name+" is read without a warning", func(t *testing.T) {
			got := shell(t, shells.Man(model), "groff", "-man", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u")
			require.Contains(t, got, "COMMANDS")
			for _, node := range model.Leaves(true) {
				require.Contains(t, got, "   "+node.Name+"\n")
			}
		})
	}
	t.Run("nothing is lost that roff would take for its own", func(t *testing.T) {
		got := shell(t, shells.Man(exampleModel(t)), "groff", "-man", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u")
		for _, want := range []string{`It's [a] store: \ or $HOME.`, "'JSON' at the start.", ".A folder at the start.", ".example walk -m 'map' away"} {
			require.Contains(t, got, want)
		}
	})
}
