// Package lines is what the peers in Go share: how they talk to their driver.
//
// Commands come in on stdin, one a line; events go out on stdout, one JSON object a line, each with the time at which
// it happened on CLOCK_MONOTONIC, which all processes of a machine share. The end of stdin ends the program.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Fields are what an event tells besides its name and its time.
type Fields map[string]any

// Acts are the commands that a peer knows, each with what it does with what stands behind the first word.
type Acts map[string]func(argument string) error

var out = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

// Now is the time that all processes of a machine share.
func Now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// Say tells of an event that happens now.
func Say(event string, more Fields) { SayAt(Now(), event, more) }

// SayAt tells of an event that happened then.
func SayAt(at int64, event string, more Fields) {
	line := Fields{"event": event, "at_ns": at}
	for name, value := range more {
		line[name] = value
	}
	out.Lock()
	defer out.Unlock()
	if err := out.Encode(line); err != nil {
		os.Exit(1) // Nobody listens any more.
	}
}

// Check ends the program with what went wrong, if anything did.
func Check(err error) {
	if err != nil {
		Say("failed", Fields{"text": err.Error()})
		os.Exit(1)
	}
}

// Lose ends the program: an office that it did not resign from is no longer its own.
func Lose() {
	Say("lost", nil)
	os.Exit(1)
}

// Serve obeys commands until the end of stdin.
func Serve(acts Acts) {
	debug.FreeOSMemory() // What the program needs by itself is measured from here.
	Say("ready", nil)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		command, argument, _ := strings.Cut(commands.Text(), " ")
		act, known := acts[command]
		if !known {
			Check(fmt.Errorf("%q is no command", command))
		}
		Check(act(argument))
	}
}

// Counted is a command whose argument is a number.
func Counted(act func(count int) error) func(string) error {
	return func(argument string) error {
		count, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		return act(count)
	}
}

// Time does something count times, and says how long each took.
func Time(count int, act func() error) error {
	took := make([]int64, 0, count)
	for range count {
		began := Now()
		if err := act(); err != nil {
			return err
		}
		took = append(took, Now()-began)
	}
	Say("timed", Fields{"took_ns": took})
	return nil
}
