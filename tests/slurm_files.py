"""The configuration of the cluster of the tests: everything below one folder, on loopback."""

SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={d}/run/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser={user}
LogFile={d}/log/slurmdbd.log
PidFile={d}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct
CommitDelay=1
"""

SLURM = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={d}/run/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool/%n
SlurmctldPidFile={d}/run/slurmctld.pid
SlurmdPidFile={d}/run/slurmd-%n.pid
SlurmctldLogFile={d}/log/slurmctld.log
SlurmdLogFile={d}/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
DefMemPerCPU=256
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={d}/run/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
AccountingStorageEnforce=associations
JobRequeue=1
KillWait=5
MinJobAge=300
SlurmdTimeout=10
SlurmctldTimeout=10
ReturnToService=2
InactiveLimit=0
MessageTimeout=10
MailProg=/bin/true
UnkillableStepTimeout=20
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=1440 DefaultTime=60 PriorityTier=10 PreemptMode=OFF
PartitionName=spot Nodes=n[1-2] MaxTime=1440 DefaultTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=short Nodes=n[1-2] MaxTime=1 DefaultTime=1
"""  # noqa: E501 - a partition is one line

NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=4 RealMemory=6000 Gres=gpu:h100:2 State=UNKNOWN"
)
