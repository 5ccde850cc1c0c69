// A program on client-go's leaderelection that contends as its commands say. It stands for every controller that a
// tenure candidate shares a Lease with, and nothing of tenure is in it.
//
// Arguments: release|keep, kubeconfig, name of the Lease, and LeaseDuration, RenewDeadline and RetryPeriod in seconds.
// Whoever resigns gives the Lease up with release, which is client-go's ReleaseOnCancel; with keep it is left to end.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"tenure.example/peer/lines"
)

const unlimited = -1 // As shipped a client makes five requests a second, which many elections share.

type peer struct {
	client              coordination.CoordinationV1Interface
	namespace, name     string
	release             bool
	lease, renew, retry time.Duration
	stop                context.CancelFunc
	ended               chan struct{}
}

func main() {
	if len(os.Args) != 7 {
		lines.Check(fmt.Errorf("usage: %s release|keep KUBECONFIG NAME LEASE_S RENEW_S RETRY_S", os.Args[0]))
	}
	if kind := os.Args[1]; kind != "release" && kind != "keep" {
		lines.Check(fmt.Errorf("%q is neither release nor keep", kind))
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	p := &peer{
		name: os.Args[3], release: os.Args[1] == "release",
		lease: seconds(os.Args[4]), renew: seconds(os.Args[5]), retry: seconds(os.Args[6]),
	}
	lines.Check(p.connect(os.Args[2]))
	lines.Serve(lines.Acts{
		"campaign": p.campaign,
		"resign":   p.resign,
		"observe":  p.observe,
		"time":     lines.Counted(p.time),
		"many":     lines.Counted(p.many),
	})
}

func seconds(text string) time.Duration {
	number, err := strconv.ParseFloat(text, 64)
	lines.Check(err)
	return time.Duration(number * float64(time.Second))
}

func (p *peer) connect(kubeconfig string) error {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	settings := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := settings.ClientConfig()
	if err != nil {
		return err
	}
	config.QPS = unlimited
	config.Timeout = p.renew / 2 // as client-go's own NewFromKubeconfig has it
	if p.client, err = coordination.NewForConfig(config); err != nil {
		return err
	}
	p.namespace, _, err = settings.Namespace()
	return err
}

// elector is a candidate for the Lease of this name.
func (p *peer) elector(
	name, identity string, callbacks leaderelection.LeaderCallbacks,
) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: p.namespace, Name: name},
			Client:     p.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: p.lease, RenewDeadline: p.renew, RetryPeriod: p.retry, ReleaseOnCancel: p.release,
		Name: name, Callbacks: callbacks,
	})
}

// campaign stands, and returns at once: "standing" and "leading" tell what comes of it.
func (p *peer) campaign(identity string) error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	// There is no queue. Whoever has seen who leads, or leads, stands.
	standing := sync.OnceFunc(func() { lines.Say("standing", nil) })
	elector, err := p.elector(p.name, identity, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			at := lines.Now()
			standing()
			lease, err := p.client.Leases(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
			lines.Check(err)
			lines.SayAt(at, "leading", lines.Fields{"token": *lease.Spec.LeaseTransitions})
		},
		OnStoppedLeading: func() {},
		OnNewLeader:      func(string) { standing() },
	})
	if err != nil {
		stop()
		return err
	}
	p.stop, p.ended = stop, ended
	go func() {
		elector.Run(ctx)
		if ctx.Err() == nil {
			lines.Lose()
		}
		close(ended)
	}()
	return nil
}

func (p *peer) resign(string) error {
	lines.Say("leaving", nil)
	p.stop()
	<-p.ended
	lines.Say("left", nil)
	return nil
}

// observe says who holds the Lease, now and at every change of it.
func (p *peer) observe(string) error {
	options := metav1.SingleObject(metav1.ObjectMeta{Name: p.name})
	changes, err := p.client.Leases(p.namespace).Watch(context.Background(), options)
	if err != nil {
		return err
	}
	go func() {
		for change := range changes.ResultChan() {
			lease, ok := change.Object.(*v1.Lease)
			if ok && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
				lines.Say("observed", lines.Fields{"value": *lease.Spec.HolderIdentity})
			}
		}
		lines.Check(fmt.Errorf("the observation has ended"))
	}()
	return nil
}

// time takes and leaves the office, and says how long each pair took.
func (p *peer) time(count int) error {
	return lines.Time(count, func() error {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		elector, err := p.elector(p.name, "timed", leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { stop() },
			OnStoppedLeading: func() {},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
		return nil
	})
}

// many wins count elections and keeps them.
func (p *peer) many(count int) error {
	var all sync.WaitGroup
	all.Add(count)
	for number := range count {
		elector, err := p.elector(fmt.Sprintf("%s-%d", p.name, number), "one of many", leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { all.Done() },
			OnStoppedLeading: lines.Lose,
		})
		if err != nil {
			return err
		}
		go elector.Run(context.Background())
	}
	all.Wait()
	debug.FreeOSMemory()
	lines.Say("held", nil)
	return nil
}
