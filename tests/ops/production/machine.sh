#!/usr/bin/env bash
# A machine for a test: this system with systemd as its first process, loopback as its network, and nothing installed
# for railbird. Whatever it writes is gone when it ends: its file system is a layer in memory above this one.
#
#   unshare --net --mount --pid --ipc --uts --cgroup --fork --kill-child bash tests/ops/production/machine.sh
#
# It needs root.
set -euo pipefail

ip link set lo up
mount --make-rprivate /
mount -t tmpfs -o mode=755 machine /mnt
mkdir /mnt/{upper,work,root}
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work machine /mnt/root
cd /mnt/root

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 machine run
mount -t tmpfs -o mode=755 machine dev
for device in null zero full random urandom tty; do
  touch dev/$device
  mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t tmpfs machine dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# systemd takes the hierarchy that the kernel has: one of version 2, or the one of version 1 with its name.
if [[ $(stat --file-system --format %T /sys/fs/cgroup) == cgroup2fs ]]; then
  mount -t cgroup2 cgroup sys/fs/cgroup
else
  mount -t tmpfs -o mode=755 machine sys/fs/cgroup
  mkdir sys/fs/cgroup/{unified,systemd}
  mount -t cgroup2 cgroup sys/fs/cgroup/unified
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi

# No unit of this system but its basic ones, and none that looks for hardware.
rm -rf etc/systemd/system
mkdir -p etc/systemd/system/multi-user.target.wants
: >etc/fstab
: >etc/machine-id
for unit in dev-{hugepages,mqueue}.mount sys-fs-fuse-connections.mount sys-kernel-{config,debug,tracing}.mount \
  proc-sys-fs-binfmt_misc.automount systemd-{udevd,udev-trigger,networkd,resolved,logind}.service \
  systemd-{modules-load,sysctl,timesyncd,random-seed}.service systemd-udevd-{control,kernel}.socket \
  systemd-tmpfiles-clean.timer; do
  ln -s /dev/null "etc/systemd/system/$unit"
done

# /tmp keeps what it has: the repository may be there.
ln -sf /dev/null etc/tmpfiles.d/tmp.conf

mkdir old
pivot_root . old
cd /
umount --lazy old
rmdir old
# systemd gives credentials to units by mounts that have to be seen everywhere.
mount --make-rshared /
export container=unshare PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot . /lib/systemd/systemd --system --unit=multi-user.target --log-target=console </dev/null
