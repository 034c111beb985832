package main

import "github.com/alecthomas/kong"

// Main runs the program in the test binary.
func Main() { main() }

// What is tested apart from a whole program.
var (
	ReadStory       = readStory
	StoryText       = storyText
	Plain           = plain
	Columns         = columns
	WithoutPassword = withoutPassword
	Quoted          = quoted
)

// Ago is for tests of the text.
var Ago = ago

// TableText returns the text of a table.
func TableText(rows [][]string, width int) string { return table(rows).text(width) }

// The texts that are generated from a model.
func BashScript(model *kong.Application) string { return bashScript(model) }
func ZshScript(model *kong.Application) string  { return zshScript(model) }
func FishScript(model *kong.Application) string { return fishScript(model) }
func ManPage(model *kong.Application) string    { return manPage(model) }

// Model is the model of the program's command line.
func Model() *kong.Application {
	parser, err := Program{}.parser(&commandLine{})
	if err != nil {
		panic(err)
	}
	return parser.Model
}

// ParseRun parses a command line by the model of run alone, and by that of all commands.
func ParseRun(args []string) (alone, ofAll any, err error) {
	var line runLine
	var all commandLine
	if _, err := (Program{}).parseAs(&line, args, kong.NoDefaultHelp()); err != nil {
		return nil, nil, err
	}
	_, err = Program{}.parseAs(&all, args)
	return line, runLine{all.Common, all.Run}, err
}
