package main

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
