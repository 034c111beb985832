package usage

import (
	"bytes"
	"strings"
)

// The tables of OpenAI Chat Completions and Responses. What was made by the API's own tools is all in the item. A file
// has what is in it, or what names it.
var (
	chatBody, chatTurn, responsesBody                       object
	chatContent, chatTools, responsesItems, responsesPieces map[string]kind
	openAIFile, openAIImage, openAISound                    kind
)

func makeChat() {
	chatBody = fields(text, `
		verbosity reasoning_effort response_format tool_choice parallel_tool_calls function_call modalities audio
		moderation
	`).with(fields(free, `
		temperature top_p frequency_penalty presence_penalty logit_bias logprobs top_logprobs seed stop user
		safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options metadata store service_tier
	`)).with(object{
		"model":                 model,
		"max_tokens":            maxOutput,
		"max_completion_tokens": maxOutput,
		"n":                     candidates,
		"best_of":               candidates,
		"stream":                stream,
		"stream_options":        streamOptions,
		"prediction": func(r *request, v value) { // what of it is wrong is billed as output
			text(r, v)
			r.call.extraOutput = int64(len(v))
		},
		"messages":  each(chatMessage),
		"tools":     head(each(chatTool)),
		"functions": head(each(inBody)),
		"web_search_options": func(r *request, v value) {
			text(r, v)
			if string(v) != "null" {
				r.serverTool("web_search_options", -1, resultTokens)
			}
		},
	})
	chatTurn = fields(text, "role name refusal tool_calls tool_call_id function_call annotations").with(
		fields(reasoning, "reasoning_content reasoning reasoning_details thinking_blocks"),
	).with(object{
		"content": func(r *request, v value) { r.content("text", chatContent, v) }, "audio": refers(Reference),
		"cache_control": free,
	})
	chatContent = map[string]kind{
		"text": piece("text"), "refusal": piece("refusal"),
		"image_url": piece("").with(object{
			"image_url": inside(object{"url": inline("image_url", "image/"), "detail": text}),
		}),
		"input_audio": openAISound,
		"file":        piece("").with(object{"file": inside(openAIFile.has)}),
	}
	chatTools = map[string]kind{"function": piece("function"), "custom": piece("custom")}
}

func inBody(r *request, v value) {
	r.call.Parts++
	r.part(func() { r.at.put("", v) })
}

// streamOptions takes the options of a stream, and notes how they can ask for usage.
func streamOptions(r *request, v value) {
	c, at := r.call, r.span(v)
	inside := span{at.from + 1, at.from + 1}
	switch {
	case string(v) == "null":
		c.asks = Change{at, "{" + includeUsage + "}"}
	case v[0] != '{' || hasMember(v, "include_usage"):
		c.asks = Change{}
		c.Usage = memberOf(v, "include_usage").isTrue()
	case v.isEmptyObject():
		c.asks = Change{inside, includeUsage}
	default:
		c.asks = Change{inside, includeUsage + ","}
	}
}

func chatMessage(r *request, v value) {
	r.message(memberText(v, "role"), func() { r.object(chatTurn, v) })
}

// reasoning is a field that some servers send, and take back to read it or not.
func reasoning(r *request, v value) {
	text(r, v)
	r.at.left = true
}

// piece is a piece of content that is no more than its members.
func piece(names string) kind {
	return kind{has: fields(text, names).with(fields(free, "type cache_control prompt_cache_breakpoint"))}
}

// inline is a field that has media in the body, or a URL that the API fetches. Media without a type are of the one that
// is assumed.
func inline(name, assumed string) field {
	return func(r *request, v value) {
		media, is := bytes.CutPrefix(v, []byte(`"data:`))
		switch {
		case is:
			r.media(string(media[:max(0, bytes.IndexAny(media, `;,"`))]), v)
		case v.isNothing():
		case bytes.Contains(v[:min(len(v), longestPart)], []byte(":")): // base64 has none
			r.blame(Reference, name)
			r.at.put(name, v)
		default:
			r.media(assumed, v)
		}
	}
}

func chatTool(r *request, v value) {
	r.call.Parts++
	r.part(func() { r.typed(chatTools, "function", v) })
}

func makeResponses() {
	responsesBody = fields(text, `
		parallel_tool_calls reasoning text tool_choice truncation moderation image
	`).with(fields(free, `
		background include metadata prompt_cache_key prompt_cache_retention prompt_cache_options safety_identifier
		service_tier store stream_options temperature top_logprobs top_p user client_metadata access_programs
		background_options
	`)).with(object{
		"model":                model,
		"max_output_tokens":    maxOutput,
		"max_tool_calls":       text, // read with the tools, wherever it stands
		"stream":               stream,
		"input":                responsesInput,
		"instructions":         head(responsesContent),
		"tools":                head(each(responsesTool)),
		"previous_response_id": refers(Reference),
		"conversation":         refers(Reference),
		"prompt":               refers(Reference),
		"multi_agent": func(r *request, v value) { // each agent is calls of its own
			text(r, v)
			if !v.isNothing() && string(memberOf(v, "enabled")) != "false" {
				r.blame(ServerTool, "multi_agent")
			}
		},
		"context_management": func(r *request, v value) { // it can compact before it answers
			text(r, v)
			if !v.isNothing() {
				r.call.managed = true
				r.call.rounds++
			}
		},
	})
}

func responsesInput(r *request, v value) {
	if v[0] == '"' || v.isNothing() {
		r.message("user", func() { responsesContent(r, v) })
		return
	}
	each(func(r *request, item value) {
		r.message(roleOfItem(item), func() { r.typed(responsesItems, "message", item) })
	})(r, v)
}

// roleOfItem says who made an item of the input.
func roleOfItem(item value) string {
	switch kind := typeOf(item, "message"); {
	case kind == "message":
		return memberText(item, "role")
	case strings.HasSuffix(kind, "_call"), kind == "reasoning", kind == "program":
		return "assistant"
	}
	return "tool"
}

// item is an item of the input, with what all have. The last one of that is Codex's.
func item(names string) kind {
	common := fields(text, "id status agent internal_chat_message_metadata_passthrough")
	return kind{has: fields(text, names).with(common, object{"type": free})}
}

func responsesContent(r *request, v value) { r.content("input_text", responsesPieces, v) }

// responsesTool takes a tool. Only functions and custom tools are all in the body.
func responsesTool(r *request, v value) {
	r.call.Parts++
	r.tooled = true
	r.part(func() {
		r.at.put("", v)
		name, environment := typeOf(v, "function"), memberText(memberOf(v, "environment"), "type")
		switch {
		case name == "function", name == "custom", name == "namespace":
			return
		case name == "shell" && strings.HasPrefix(environment, "container"):
			r.blame(Reference, environment)
		case name == "tool_search" && memberText(v, "execution") == "client":
			name = "tool_search client"
		}
		r.apiTool(name, -1)
	})
}

func makePieces() {
	openAISound = piece("").with(object{"input_audio": inside(object{
		"data": func(r *request, v value) { r.media("audio/", v) }, "format": text,
	})})
	openAIFile = piece("filename detail").with(object{
		"file_data": inline("file_data", "application/"), "file_id": refers(Reference),
		"file_url": refers(Reference),
	})
	openAIImage = piece("detail").with(object{
		"image_url": inline("image_url", "image/"), "file_id": refers(Reference),
	})
	responsesPieces = map[string]kind{
		"input_text": piece("text"),
		// The SDK's helpers parse a text, and give it back in the history.
		"output_text": piece("text annotations logprobs parsed"),
		// What Codex tells a sub-agent: a text of the model's, which encrypted is not shorter than its tokens.
		"encrypted_content": piece("encrypted_content"),
		"text":              piece("text"), "summary_text": piece("text"),
		"reasoning_text": piece("text"),
		"refusal":        piece("refusal"), "input_image": openAIImage, "input_audio": openAISound,
		"input_file": openAIFile,
	}
}

func makeItems() {
	responsesItems = map[string]kind{
		"message":                 item("role phase").with(object{"content": responsesContent}),
		"function_call":           item("call_id name arguments parsed_arguments namespace caller async"),
		"function_call_output":    item("call_id name namespace caller").with(object{"output": responsesContent}),
		"custom_tool_call":        item("call_id name input namespace caller async"),
		"custom_tool_call_output": item("call_id name caller").with(object{"output": responsesContent}),
		"reasoning":               item("summary encrypted_content content").as(opaque),
		"compaction":              item("encrypted_content").as(compacted),
		"compaction_summary":      item("encrypted_content").as(compacted),
		"compaction_trigger":      item(""), "configuration_update": item("reasoning text"),
		"item_reference": {why: Reference},

		"local_shell_call":        item("call_id action"),
		"local_shell_call_output": item("call_id output"),
		"shell_call":              item("call_id action caller environment"),
		"shell_call_output":       item("call_id output caller max_output_length"),
		"apply_patch_call":        item("call_id operation caller"),
		"apply_patch_call_output": item("call_id output caller"),
		"tool_search_call":        item("call_id arguments execution"),
		"tool_search_output":      item("call_id execution").with(object{"tools": each(responsesTool)}),
		"additional_tools":        item("role").with(object{"tools": each(responsesTool)}),
		"computer_call":           item("call_id action actions pending_safety_checks"),
		"computer_call_output":    item("call_id acknowledged_safety_checks").with(object{"output": inside(openAIImage.has)}),
		"image_generation_call": item("revised_prompt action background output_format quality size error svg_usage").
			with(object{"result": inline("result", "image/")}),
		"file_search_call": item("queries results").as(found), "web_search_call": item("action").as(found),
		"code_interpreter_call":   item("code outputs container_id").as(found),
		"agent_message":           item("author recipient").with(object{"content": responsesContent}),
		"multi_agent_call":        item("call_id action arguments"),
		"multi_agent_call_output": item("call_id action output"),
		"program":                 item("call_id code fingerprint"),
		"program_output":          item("call_id result"),
		"mcp_list_tools":          item("server_label tools error"),
		"mcp_call":                item("arguments name server_label approval_request_id output error"),
		"mcp_approval_request":    item("arguments name server_label"),
		"mcp_approval_response":   item("approval_request_id approve reason"),
	}
}
