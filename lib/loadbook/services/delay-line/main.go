// delay-line passes TCP connections on, and what clients send a set time later.
//
//	delay-line run DIR/line.json      listen and pass on until told to stop
//	delay-line check DIR/line.json    print the configuration as it is understood
//	delay-line ask DIR                print what the process that runs in DIR says of itself
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const controlSocket = "control.sock"

// Config is line.json; the delay in milliseconds, one way.
type Config struct {
	ConfigID string `json:"config_id"`
	Address  string `json:"address"`
	Port     string `json:"port"`
	To       string `json:"to"`
	ToPort   string `json:"to_port"`
	DelayMs  int    `json:"delay_ms"`
	Cpus     int    `json:"cpus"`
}

func main() {
	verbs := map[string]func(string) error{"run": run, "check": check, "ask": ask}
	if len(os.Args) != 3 || verbs[os.Args[1]] == nil {
		fail(errors.New("usage: delay-line run|check FILE, delay-line ask DIR"))
	}
	if err := verbs[os.Args[1]](os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "delay-line:", err)
	os.Exit(1)
}

func read(path string) (config Config, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return config, fmt.Errorf("%s: %w", path, err)
	}
	if config.To == "" {
		return config, errors.New("there is nothing behind it: the role needs backends")
	}
	return config, nil
}

func check(path string) error {
	config, err := read(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(config, "", "  ")
	fmt.Println(string(text))
	return err
}

func run(path string) error {
	config, err := read(path)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(config.Cpus)
	// sockets by relative names: an absolute path may be longer than the 107 bytes that a socket's name can have
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(config.Address, config.Port))
	if err != nil {
		return err
	}
	control, err := net.Listen("unix", controlSocket)
	if err != nil {
		return err
	}
	line := &Line{
		target: net.JoinHostPort(config.To, config.ToPort),
		delay:  time.Duration(config.DelayMs) * time.Millisecond,
	}
	go tell(control, config, line)
	return line.serve(listener)
}

// tell answers whoever connects to the control socket, which is no connection of the line.
func tell(control net.Listener, config Config, line *Line) {
	for {
		connection, err := control.Accept()
		if err != nil {
			fail(err)
		}
		fmt.Fprintf(connection, "config-id %s\nconnections %d\nupstream_connections %d\nrefused %d\n",
			config.ConfigID, line.accepted.Load(), line.opened.Load(), line.refused.Load())
		connection.Close()
	}
}

func ask(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	connection, err := net.DialTimeout("unix", controlSocket, 2*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(2 * time.Second))
	_, err = io.Copy(os.Stdout, connection)
	return err
}
