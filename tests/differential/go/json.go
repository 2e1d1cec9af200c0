package main

import (
	"bytes"
	"encoding/json"
)

// A message of MCP as a server has it that decodes into structs, which encoding/json fills from members in any case.
type message struct {
	Method string `json:"method"`
	Params struct {
		Name      string     `json:"name"`
		Arguments *arguments `json:"arguments"`
	} `json:"params"`
}

type arguments struct {
	Path  *string  `json:"path,omitempty" jsonschema:"where"`
	Mode  *string  `json:"mode,omitempty"`
	Count *int64   `json:"count,omitempty"`
	Opts  *options `json:"opts,omitempty"`
}

type options struct {
	Task *string `json:"task,omitempty"`
}

func isBatch(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '['
}

// The calls of a body, nil if the decoder refuses it.
func callsOf(data []byte, decode func([]byte, any) error) any {
	var messages []message
	if isBatch(data) {
		if decode(data, &messages) != nil {
			return nil
		}
	} else {
		var one message
		if decode(data, &one) != nil {
			return nil
		}
		messages = append(messages, one)
	}
	calls := []call{}
	for _, m := range messages {
		if m.Method == "tools/call" {
			calls = append(calls, call{m.Params.Name, m.Params.Arguments})
		}
	}
	return calls
}

func readStructs(data []byte) any {
	return callsOf(data, json.Unmarshal)
}

// Takes the first value and leaves what is behind it, as servers do that decode from the body itself.
func readDecoder(data []byte) any {
	return callsOf(data, func(data []byte, to any) error {
		return json.NewDecoder(bytes.NewReader(data)).Decode(to)
	})
}

// The body as maps and lists.
func readValue(data []byte) any {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return nil
	}
	return value
}

func readMaps(data []byte) any {
	value := readValue(data)
	if value == nil {
		return nil
	}
	messages, isList := value.([]any)
	if !isList {
		messages = []any{value}
	}
	calls := []call{}
	for _, m := range messages {
		object, _ := m.(map[string]any)
		params, _ := object["params"].(map[string]any)
		name, isText := params["name"].(string)
		if object["method"] == "tools/call" && isText {
			calls = append(calls, call{name, params["arguments"]})
		}
	}
	return calls
}

// A request to a model.
type model struct {
	Model               string      `json:"model,omitempty"`
	MaxTokens           *int64      `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int64      `json:"max_completion_tokens,omitempty"`
	MaxOutputTokens     *int64      `json:"max_output_tokens,omitempty"`
	Tools               []modelTool `json:"tools,omitempty"`
	MCPServers          []any       `json:"mcp_servers,omitempty"`
	Messages            any         `json:"messages,omitempty"`
	Input               any         `json:"input,omitempty"`
}

type modelTool struct {
	Type     string         `json:"type,omitempty"`
	Name     string         `json:"name,omitempty"`
	Function *modelFunction `json:"function,omitempty"`
}

type modelFunction struct {
	Name string `json:"name"`
}

func readModelStruct(data []byte) any {
	var m model
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}
