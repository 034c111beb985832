package main

// Main runs the program in the test binary.
func Main() { main() }

// What tells a story, without the program around it.
var (
	ReadStory = readStory
	StoryText = storyText
	Plain     = plain
	Columns   = columns
)
