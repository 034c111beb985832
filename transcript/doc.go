// Package transcript reads what agents keep of their sessions, and gives the turns of a session as [loop.Step] values:
// the way to see on sessions that are over where the rules of package loop would have asked and ended.
//
// It knows the session files of Claude Code and of Codex, what opencode export prints, the trajectories of SWE-agent
// and of mini-swe-agent, and lists of chat messages as the APIs of OpenAI and Anthropic take them, also as JSON lines.
// What a file is, is told by its content.
//
// The formats are nobody's promise, and change with each version of an agent. What is not known is skipped and counted;
// if that is more than 5 % of a file, the last error says so.
//
// # What is a step
//
// A call of a tool is one, with the result that has its ID; a call that has none, because it was interrupted, is not.
// The calls of one message are one turn. What a person typed is a turn of one step of class [loop.Person]. What a
// program says in the user's role is not: results, reminders, notices, summaries, and the task that an agent gives to
// another one.
//
// # What it does not do
//
// It opens no files, unpacks nothing, and follows no reference from one file to another: the files of sub-agents are
// read like any other. It keeps one value of a file in memory, such as a line, and the turns that are not yet complete.
package transcript
