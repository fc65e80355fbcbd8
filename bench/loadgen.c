// loadgen: raw-socket AMQP 0-9-1 load generator (single thread, epoll, pre-encoded frames).
// `loadgen --help` prints the options, README.md says what each benchmark row asks.
//
// Every publisher and consumer is one connection with channel 1. Frames are encoded once before the run; only an 8-byte
// CLOCK_MONOTONIC timestamp is stamped into each body, so the generator costs far less per message than a broker does.
// --mixed: every publisher owns a seeded set of distinct messages (sizes log-uniform, properties, headers, routing keys)
// laid out back to back, and sends slices of it. Each body also carries (set index, publisher), by which the consumers
// check size, queue, routing key, properties and order of what they get.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#ifdef TLS
#include <openssl/ssl.h>
#include <openssl/err.h>
#endif
#include <time.h>
#include <unistd.h>

typedef uint8_t u8; typedef uint16_t u16; typedef uint64_t u64; typedef int64_t i64; typedef uint32_t u32;
static inline u64 now_ns(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return (u64)t.tv_sec*1000000000ull+t.tv_nsec;}
static void die(const char*m){fprintf(stderr,"loadgen: %s (%s)\n",m,strerror(errno));exit(2);}

// ---------- log-bucket histogram, ~1.5% precision, nanoseconds
#define SUB 64
#define NB (64*SUB)
typedef struct{u64 b[NB];u64 n;u64 max;}hist;
static inline int hidx(u64 v){if(v<SUB)return (int)v;int e=63-__builtin_clzll(v);int s=e-6;return (s+1)*SUB+(int)((v>>s)-SUB);}
static inline u64 hval(int i){if(i<SUB)return i;int s=i/SUB-1;u64 m=SUB+(i%SUB);return (m<<s)+((1ull<<s)>>1);}
static inline void hadd(hist*h,u64 v){h->b[hidx(v)]++;h->n++;if(v>h->max)h->max=v;}
static double hpct(hist*h,double p){if(!h->n)return 0;u64 t=(u64)(p*h->n);u64 c=0;for(int i=0;i<NB;i++){c+=h->b[i];if(c>t)return hval(i)/1000.0;}return h->max/1000.0;}

// ---------- options
static const char*host="127.0.0.1";static int port=5672;
static int P=1,C=1,Q=1;static u64 size=16;static double warm=1,dur=5;static int persistent=0,durable=0;
static int confirm_w=0,prefetch=0,ackmulti=0;static double prate=0,crate=0;static int fanout=0;
static int pids[64],npids=0;static int series=0;static const char*user="guest",*pass="guest",*vhost="/";static const char*label="";
static u64 maxmsgs=0;static double drain_s=20;static int keepq=0;static const char*qpfx="pq";static int blockmax=65536;
static int mixed=0,topic=0,routes=1000;static u32 setn=4096;static u64 seed=1;static u64 smin=16,smax=65536;static int idle=0;static double stall_s=20;static const char*qtype="";

// ---------- codec helpers
typedef struct{u8*p;size_t n;}enc;
static void e8(enc*e,int v){e->p[e->n++]=v;}
static void e16(enc*e,int v){e8(e,v>>8);e8(e,v);}
static void e32(enc*e,u32 v){e16(e,v>>16);e16(e,v&0xffff);}
static void e64(enc*e,u64 v){e32(e,v>>32);e32(e,(u32)v);}
static void ess(enc*e,const char*s){int l=strlen(s);e8(e,l);memcpy(e->p+e->n,s,l);e->n+=l;}
static u8 mb[65536];
static size_t fstart;static enc E;
static enc*mbegin(int ch,int cls,int m){E.p=mb;E.n=0;e8(&E,1);e16(&E,ch);fstart=E.n;e32(&E,0);e16(&E,cls);e16(&E,m);return &E;}
static void mend(void){u32 l=E.n-7;mb[3]=l>>24;mb[4]=l>>16;mb[5]=l>>8;mb[6]=l;e8(&E,0xCE);}
// ---------- bytes in and out: plain, or through TLS where --tls was given (built with -DTLS -lssl -lcrypto)
#ifdef TLS
static SSL_CTX*tls;static SSL*tls_of[65536];
static void tls_die(const char*what){fprintf(stderr,"loadgen: TLS %s: ",what);ERR_print_errors_fp(stderr);exit(2);}
static void tls_start(void){tls=SSL_CTX_new(TLS_client_method());if(!tls)tls_die("set-up");
  SSL_CTX_set_mode(tls,SSL_MODE_ENABLE_PARTIAL_WRITE|SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER|SSL_MODE_AUTO_RETRY);}
static void tls_connect(int fd){SSL*s=SSL_new(tls);if(!s||fd>=65536||!SSL_set_fd(s,fd)||SSL_connect(s)!=1)tls_die("handshake");tls_of[fd]=s;}
static ssize_t tls_failed(SSL*s,int r,size_t done){int e=SSL_get_error(s,r);if(done)return done;if(e==SSL_ERROR_ZERO_RETURN)return 0;
  if(e==SSL_ERROR_WANT_READ||e==SSL_ERROR_WANT_WRITE){errno=EAGAIN;return -1;}if(e==SSL_ERROR_SYSCALL&&errno)return -1;tls_die("record");return -1;}
// One record carries 16 KiB at most, so both go on until the socket would block, as one call to the kernel does.
static ssize_t put(int fd,const void*b,size_t n){SSL*s=tls_of[fd];if(!s)return send(fd,b,n,MSG_NOSIGNAL);size_t d=0;
  while(d<n){ERR_clear_error();int r=SSL_write(s,(const u8*)b+d,n-d);if(r<=0)return tls_failed(s,r,d);d+=r;}return d;}
static ssize_t take(int fd,void*b,size_t n){SSL*s=tls_of[fd];if(!s)return recv(fd,b,n,0);size_t d=0;
  do{ERR_clear_error();int r=SSL_read(s,(u8*)b+d,n-d);if(r<=0)return tls_failed(s,r,d);d+=r;}while(d<n&&SSL_has_pending(s));return d;}
static int has_more(int fd){return tls_of[fd]&&SSL_has_pending(tls_of[fd]);}
static void shut(int fd){if(tls_of[fd]){SSL_shutdown(tls_of[fd]);SSL_free(tls_of[fd]);tls_of[fd]=0;}close(fd);}
#else
static ssize_t put(int fd,const void*b,size_t n){return send(fd,b,n,MSG_NOSIGNAL);}
static ssize_t take(int fd,void*b,size_t n){return recv(fd,b,n,0);}
static int has_more(int fd){(void)fd;return 0;}
static void shut(int fd){close(fd);}
#endif
static void wr(int fd,const void*b,size_t n){const u8*p=b;while(n){ssize_t r=put(fd,p,n);if(r<0){if(errno==EINTR)continue;die("write");}p+=r;n-=r;}}
static void rdn(int fd,void*b,size_t n){u8*p=b;while(n){ssize_t r=take(fd,p,n);if(r<=0)die("read (connection closed by broker?)");p+=r;n-=r;}}
static u32 g32(const u8*p){return (u32)p[0]<<24|p[1]<<16|p[2]<<8|p[3];}
static u64 g64(const u8*p){return (u64)g32(p)<<32|g32(p+4);}
static u8 eb[262144]; // payload of the last awaited frame
static u32 frame_max=131072; // agreed frame size: the smaller of ours and the broker's
static void expect(int fd,int cls,int m){u8*b=eb;for(;;){u8 h[7];rdn(fd,h,7);u32 l=g32(h+3);if(l+1>sizeof eb)die("frame too big");rdn(fd,b,l+1);
  if(h[0]==8)continue;int c=b[0]<<8|b[1],mm=b[2]<<8|b[3];if(h[0]==1&&c==cls&&mm==m)return;
  if(h[0]==1&&((c==10&&mm==50)||(c==20&&mm==40))){fprintf(stderr,"loadgen: broker closed: code %d %.*s\n",b[4]<<8|b[5],b[6],b+7);exit(3);}
  fprintf(stderr,"loadgen: unexpected frame type %d class %d method %d while waiting %d.%d\n",h[0],c,mm,cls,m);exit(3);}}
static void send_expect(int fd,int cls,int m){mend();wr(fd,mb,E.n);expect(fd,cls,m);}

static int conn_open(void){
  int fd=socket(AF_INET,SOCK_STREAM,0);int one=1;struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(port)};inet_pton(AF_INET,host,&a.sin_addr);
  if(connect(fd,(void*)&a,sizeof a)<0)die("connect");setsockopt(fd,IPPROTO_TCP,TCP_NODELAY,&one,sizeof one);
#ifdef TLS
  if(tls)tls_connect(fd);
#endif
  wr(fd,"AMQP\0\0\x09\x01",8);expect(fd,10,10);
  mbegin(0,10,11);e32(&E,0);ess(&E,"PLAIN");size_t ul=strlen(user),pl=strlen(pass);e32(&E,ul+pl+2);e8(&E,0);memcpy(E.p+E.n,user,ul);E.n+=ul;e8(&E,0);memcpy(E.p+E.n,pass,pl);E.n+=pl;ess(&E,"en_US");send_expect(fd,10,30);
  u32 bf=g32(eb+6);if(bf&&bf<frame_max)frame_max=bf;
  mbegin(0,10,31);e16(&E,(eb[4]<<8|eb[5])&&(eb[4]<<8|eb[5])<2047?(eb[4]<<8|eb[5]):2047);e32(&E,frame_max);e16(&E,0);mend();wr(fd,mb,E.n);
  mbegin(0,10,40);ess(&E,vhost);ess(&E,"");e8(&E,0);send_expect(fd,10,41);
  mbegin(1,20,10);ess(&E,"");send_expect(fd,20,11);
  return fd;}

// ---------- connections
#define RING (1<<20)
typedef struct{int fd,idx;int pub;int wr_on; u8*blk;size_t boff,blen;int bmsgs; size_t F,tsoff;
  u64 sent,acked,low;u8*ackbit;u64*tsr;double tok;
  u8*rb;size_t rn,rcap; // input
  u64 got,unacked_n,lasttag;u64 bodyleft;int firstbody; u64 pend_ack; u8 ob[262144];size_t on,oo;double ctok;u64 acksent;
  u64*heldtags;u64 hh,ht;
  u64 quota,held_at,held_ns; // messages this publisher may send in all; since when and how long it waits for room in its socket
  size_t*moff;u32*mts,*mhp;u16*mhl,*mroute;u32*msize,*next;u32 cur; // the message set: where message i starts, its parts, its queue's next one
  u8 hdr[512];u32 hlen;u8 key[64];int klen;u64 bytes;u64 hsize;u32*want; // consumer: what the frames so far said; next set index expected per publisher
}conn;
static conn*pubs,*cons;static int ep;
static hist Hd,Hc;static int measuring=0;
static u64 tot_sent,tot_conf,tot_got,tot_nack,tot_bytes,tot_wrong,tot_altered,tot_disorder;static u64 t_measure0;

static double cpu_of(int pid){char f[64];sprintf(f,"/proc/%d/stat",pid);FILE*fp=fopen(f,"r");if(!fp)return 0;char b[2048];size_t n=fread(b,1,2047,fp);fclose(fp);b[n]=0;char*p=strrchr(b,')');if(!p)return 0;unsigned long u,s;if(sscanf(p+2,"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",&u,&s)!=2)return 0;return (u+s)/(double)sysconf(_SC_CLK_TCK);}
static double cpuu_of(int pid,int which){char f[64];sprintf(f,"/proc/%d/stat",pid);FILE*fp=fopen(f,"r");if(!fp)return 0;char b[2048];size_t n=fread(b,1,2047,fp);fclose(fp);b[n]=0;char*p=strrchr(b,')');if(!p)return 0;unsigned long u,s;if(sscanf(p+2,"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",&u,&s)!=2)return 0;return (which?s:u)/(double)sysconf(_SC_CLK_TCK);}
static long rss_of(int pid){char f[64];sprintf(f,"/proc/%d/statm",pid);FILE*fp=fopen(f,"r");if(!fp)return 0;long a,b=0;if(fscanf(fp,"%ld %ld",&a,&b)!=2)b=0;fclose(fp);return b*4096;}
static double bcpu(void){double t=0;for(int i=0;i<npids;i++)t+=cpu_of(pids[i]);return t;}
static double bcpus(void){double t=0;for(int i=0;i<npids;i++)t+=cpuu_of(pids[i],1);return t;}
static long brss(void){long t=0;for(int i=0;i<npids;i++)t+=rss_of(pids[i]);return t;}
static double mycpu(void){struct rusage r;getrusage(RUSAGE_SELF,&r);return r.ru_utime.tv_sec+r.ru_stime.tv_sec+(r.ru_utime.tv_usec+r.ru_stime.tv_usec)/1e6;}

static void build_block(conn*c,const char*ex,const char*rk){
  u8*t=malloc(size+4096);enc e={t,0};
  e8(&e,1);e16(&e,1);size_t lp=e.n;e32(&e,0);e16(&e,60);e16(&e,40);e16(&e,0);ess(&e,ex);ess(&e,rk);e8(&e,0);u32 l=e.n-lp-4;t[lp]=l>>24;t[lp+1]=l>>16;t[lp+2]=l>>8;t[lp+3]=l;e8(&e,0xCE);
  e8(&e,2);e16(&e,1);lp=e.n;e32(&e,0);e16(&e,60);e16(&e,0);e64(&e,size);e16(&e,0x1000);e8(&e,persistent?2:1);l=e.n-lp-4;t[lp]=l>>24;t[lp+1]=l>>16;t[lp+2]=l>>8;t[lp+3]=l;e8(&e,0xCE);
  u64 left=size;size_t fm=frame_max-8;int first=1;c->tsoff=0;
  while(left){size_t ch=left>fm?fm:left;e8(&e,3);e16(&e,1);e32(&e,ch);if(first){c->tsoff=e.n;first=0;}memset(t+e.n,'x',ch);e.n+=ch;e8(&e,0xCE);left-=ch;}
  c->F=e.n;c->bmsgs=blockmax/e.n;if(c->bmsgs<1)c->bmsgs=1;c->blk=malloc(c->F*c->bmsgs);for(int i=0;i<c->bmsgs;i++)memcpy(c->blk+i*c->F,t,c->F);free(t);}

// ---------- the mixed set
static u64 rnd(u64*s){u64 z=(*s+=0x9E3779B97F4A7C15ull);z=(z^(z>>30))*0xBF58476D1CE4E5B9ull;z=(z^(z>>27))*0x94D049BB133111EBull;return z^(z>>31);} // splitmix64
static const char*region[5]={"eu","us","ap","sa","af"};
static void route_key(char*o,int r){sprintf(o,"%s.q%02d.item.%04d",region[r%5],r%Q,r);}
static void etab_s(enc*e,const char*k,const char*v){ess(e,k);e8(e,'S');e32(e,strlen(v));memcpy(e->p+e->n,v,strlen(v));e->n+=strlen(v);}
static void patch(enc*e,size_t at){u32 l=e->n-at-4;u8*q=e->p+at;q[0]=l>>24;q[1]=l>>16;q[2]=l>>8;q[3]=l;}
static u64 draw_size(u64*s){double u=(rnd(s)>>11)/9007199254740992.0;u64 v=(u64)exp2(log2((double)smin)+u*(log2((double)smax)-log2((double)smin)));return v<smin?smin:v>smax?smax:v;}
static void build_set(conn*c,const char*ex){
  u64 s=seed*1000003+c->idx;size_t cap=64<<20;c->blk=malloc(cap);enc e={c->blk,0};char b[64];
  c->moff=calloc(setn+1,sizeof*c->moff);c->mts=calloc(setn,4);c->mhp=calloc(setn,4);c->mhl=calloc(setn,2);c->mroute=calloc(setn,2);c->msize=calloc(setn,4);c->next=calloc(setn,4);
  for(u32 i=0;i<setn;i++){
    u64 sz=draw_size(&s),r=rnd(&s),z=rnd(&s);int rt=r%routes,half=(r>>32)&1;
    if(cap-e.n<sz+8192){cap*=2;c->blk=e.p=realloc(c->blk,cap);}
    c->moff[i]=e.n;c->mroute[i]=rt;c->msize[i]=sz;
    e8(&e,1);e16(&e,1);size_t lp=e.n;e32(&e,0);e16(&e,60);e16(&e,40);e16(&e,0);ess(&e,ex);route_key(b,rt);ess(&e,b);e8(&e,0);patch(&e,lp);e8(&e,0xCE);
    e8(&e,2);e16(&e,1);lp=e.n;e32(&e,0);c->mhp[i]=e.n-c->moff[i];e16(&e,60);e16(&e,0);e64(&e,sz);
    // content-type, headers, delivery-mode, message-id, timestamp, app-id on all; priority, correlation-id, reply-to, type on half of them
    e16(&e,0x8000|0x2000|0x1000|0x0080|0x0040|0x0008|(half?0x0800|0x0400|0x0200|0x0020:0));
    ess(&e,r&(1ull<<33)?"application/json":"application/octet-stream");
    size_t tp=e.n;e32(&e,0);etab_s(&e,"tenant",region[(r>>40)%5]);sprintf(b,"%016lx",z);etab_s(&e,"trace-id",b);ess(&e,"attempt");e8(&e,'I');e32(&e,(r>>48)%5);
    if(half){ess(&e,"urgent");e8(&e,'t');e8(&e,1);ess(&e,"origin");e8(&e,'F');size_t np=e.n;e32(&e,0);etab_s(&e,"host","node-7");ess(&e,"offset");e8(&e,'l');e64(&e,i);patch(&e,np);}
    patch(&e,tp);e8(&e,persistent?2:1);if(half){e8(&e,(r>>52)%10);sprintf(b,"corr-%08x",i);ess(&e,b);ess(&e,"reply.to.me");}
    sprintf(b,"m-%d-%u",c->idx,i);ess(&e,b);e64(&e,1700000000+i);if(half)ess(&e,"order.created");ess(&e,"loadgen");
    c->mhl[i]=e.n-c->moff[i]-c->mhp[i];patch(&e,lp);e8(&e,0xCE);if(c->mhl[i]>sizeof c->hdr)die("header too long");
    u64 left=sz,fm=frame_max-8;int first=1;
    while(left){u64 ch=left>fm?fm:left;e8(&e,3);e16(&e,1);e32(&e,ch);u8*q=e.p+e.n;for(u64 k=0;k+8<=ch;k+=8){z=z*6364136223846793005ull+1442695040888963407ull;memcpy(q+k,&z,8);}
      if(ch&7)memset(q+(ch&~7ull),'x',ch&7);
      if(first){c->mts[i]=e.n-c->moff[i];u32 id[2]={i,c->idx};memcpy(q+8,id,8);first=0;}e.n+=ch;e8(&e,0xCE);left-=ch;}}
  c->moff[setn]=e.n;u32*seen=malloc(4*Q);memset(seen,255,4*Q);
  for(u32 k=2*setn;k-->0;){u32 i=k%setn;int q=c->mroute[i]%Q;c->next[i]=seen[q];seen[q]=i;} // two rounds backwards close the ring
  for(int q=0;q<C&&q<Q;q++)cons[q].want[c->idx]=seen[q];free(seen);}
// A consumer has the first body frame of a message in hand: is it the message that was sent, and the next one of its queue?
static void check_mixed(conn*c,const u8*body){
  u32 i,o;memcpy(&i,body+8,4);memcpy(&o,body+12,4);if(i>=setn||o>=(u32)P){tot_wrong++;return;}
  conn*p=&pubs[o];char k[64];route_key(k,p->mroute[i]);int q=c->idx%Q;
  if(c->hsize!=p->msize[i]||p->mroute[i]%Q!=q||(int)strlen(k)!=c->klen||memcmp(k,c->key,c->klen))tot_wrong++;
  if(c->hlen!=p->mhl[i]||memcmp(c->hdr,p->blk+p->moff[i]+p->mhp[i],c->hlen))tot_altered++;
  if(C==Q){if(c->want[o]!=i)tot_disorder++;c->want[o]=p->next[i];}}

static void set_ev(conn*c,int w){struct epoll_event ev={.events=EPOLLIN|(w?EPOLLOUT:0),.data.ptr=c};epoll_ctl(ep,EPOLL_CTL_MOD,c->fd,&ev);c->wr_on=w;}
static int stop_pub=0;
static void held(conn*c){if(!c->held_at)c->held_at=now_ns();if(!c->wr_on)set_ev(c,1);}
static void unheld(conn*c,u64 now){if(c->held_at){u64 a=c->held_at>t_measure0?c->held_at:t_measure0;if(measuring&&now>a)c->held_ns+=now-a;c->held_at=0;}}
static void pub_pump(conn*c,u64 now){ // returns when would block or no allowance
  for(int it=0;it<4;it++){
    if(c->boff<c->blen){ssize_t r=put(c->fd,c->blk+c->boff,c->blen-c->boff);if(r<0){if(errno==EAGAIN){held(c);return;}die("publisher send");}unheld(c,now);c->boff+=r;if(c->boff<c->blen){held(c);return;}}
    if(stop_pub){if(c->wr_on)set_ev(c,0);return;}
    u64 n=mixed?setn:(u64)c->bmsgs;
    if(confirm_w){u64 out=c->sent-c->acked;u64 a=out>=(u64)confirm_w?0:confirm_w-out;if(a<n)n=a;}
    if(prate>0){if(c->tok<1){n=0;}else if(c->tok<n)n=(u64)c->tok;}
    if(maxmsgs){u64 left=c->quota-c->sent;if(left<n)n=left;}
    if(!n){if(c->wr_on)set_ev(c,0);return;}
    u64 ts=now_ns();
    if(mixed){u32 k=c->cur;u64 m=0;while(m<n&&k+m<setn&&(!m||c->moff[k+m+1]-c->moff[k]<=(size_t)blockmax)){memcpy(c->blk+c->moff[k+m]+c->mts[k+m],&ts,8);m++;}
      n=m;c->boff=c->moff[k];c->blen=c->moff[k+n];c->cur=(k+n)%setn;
    }else{for(u64 i=0;i<n;i++)memcpy(c->blk+i*c->F+c->tsoff,&ts,8);c->boff=0;c->blen=n*c->F;}
    if(confirm_w)for(u64 i=0;i<n;i++){u64 t=c->sent+1+i;c->tsr[t&(RING-1)]=ts;}
    c->sent+=n;tot_sent+=n;if(prate>0)c->tok-=n;
  }
  held(c); // the kernel says when there is room for more
}
static void confirm_one(conn*c,u64 t,u64 now){if(t<=c->low)return;u8*b=&c->ackbit[t&(RING-1)];if(*b)return;*b=1;c->acked++;tot_conf++;if(measuring)hadd(&Hc,now-c->tsr[t&(RING-1)]);}
static void flush_acks(conn*c){while(c->oo<c->on){ssize_t r=put(c->fd,c->ob+c->oo,c->on-c->oo);if(r<0){if(errno==EAGAIN){if(!c->wr_on)set_ev(c,1);return;}die("ack send");}c->oo+=r;}c->on=c->oo=0;if(c->wr_on)set_ev(c,0);}
static void put_ack(conn*c,u64 tag,int multi){if(c->on+32>sizeof c->ob)flush_acks(c);if(c->on+32>sizeof c->ob)die("ack buffer full");u8*p=c->ob+c->on;static const u8 h[11]={1,0,1,0,0,0,13,0,60,0,80};memcpy(p,h,11);for(int i=0;i<8;i++)p[11+i]=tag>>(56-8*i);p[19]=multi;p[20]=0xCE;c->on+=21;}
static void conn_in(conn*c){
  if(c->rcap-c->rn<65536){c->rcap*=2;c->rb=realloc(c->rb,c->rcap);}
  ssize_t r=take(c->fd,c->rb+c->rn,c->rcap-c->rn);if(r<0){if(errno==EAGAIN)return;die("recv");}if(r==0){errno=0;die("broker closed connection");}
  c->rn+=r;u64 now=now_ns();u8*p=c->rb,*end=c->rb+c->rn;
  while(end-p>=8){u32 l=g32(p+3);if((size_t)(end-p)<l+8u)break;u8*b=p+7;
    if(b[l]!=0xCE){errno=0;die("bad frame end");}
    if(p[0]==3){ if(c->firstbody){c->firstbody=0;if(mixed)check_mixed(c,b);if(measuring){u64 ts;memcpy(&ts,b,8);hadd(&Hd,now-ts);}}
      c->bodyleft-=l;c->bytes+=l;tot_bytes+=l;if(!c->bodyleft){c->got++;tot_got++;
        if(prefetch||ackmulti||crate>0){
          if(crate>0){c->heldtags[c->ht++&(RING-1)]=c->lasttag;}
          else if(ackmulti<=1)put_ack(c,c->lasttag,0);
          else if(++c->pend_ack>=(u64)ackmulti){put_ack(c,c->lasttag,1);c->pend_ack=0;}}}
    }else if(p[0]==2){c->bodyleft=c->hsize=g64(b+4);c->firstbody=1;if(mixed){c->hlen=l<=sizeof c->hdr?l:0;memcpy(c->hdr,b,c->hlen);}if(!c->bodyleft)die("empty body");}
    else if(p[0]==1){int cls=b[0]<<8|b[1],m=b[2]<<8|b[3];
      if(cls==60&&m==60){int cl=b[4];c->lasttag=g64(b+5+cl);
        if(mixed){u8*q=b+14+cl;q+=1+*q;c->klen=*q<64?*q:0;memcpy(c->key,q+1,c->klen);}}
      else if(cls==60&&(m==80||m==120)){u64 t=g64(b+4);int mu=b[12]&1;if(m==120)tot_nack++;
        if(mu){for(u64 i=c->low+1;i<=t;i++)confirm_one(c,i,now);}else confirm_one(c,t,now);
        while(c->low<c->sent&&c->ackbit[(c->low+1)&(RING-1)]){c->ackbit[(c->low+1)&(RING-1)]=0;c->low++;}}
      else if((cls==10&&m==50)||(cls==20&&m==40)){fprintf(stderr,"loadgen: broker closed: %d %.*s\n",b[4]<<8|b[5],b[6],b+7);exit(3);}
      else if(cls==20&&m==20){/*channel.flow: reply flow-ok*/mbegin(1,20,21);e8(&E,b[4]);mend();wr(c->fd,mb,E.n);}
    }
    p+=l+8;}
  size_t used=p-c->rb;if(used){memmove(c->rb,p,c->rn-used);c->rn-=used;}
  if(c->on>c->oo)flush_acks(c);
  if(c->pub)pub_pump(c,now);
}

static void usage(void){puts(
"loadgen -p PORT --pid BROKERPID [--pid PID ...] [options]     one JSON object on the last line; exit 0, 2 = socket trouble, 3 = closed by the broker\n"
"  -H host -p port --user u --pass p --vhost v   the broker (127.0.0.1:5672 guest/guest /)\n"
"  -P n -C n -Q n      publishers, consumers, queues: publisher i -> queue i%Q, consumer j <- queue j%Q\n"
"  -s bytes            body size, 8 or more (default 16)\n"
"  -w s -t s           seconds of warm-up (1) and of measuring (5)\n"
"  -n N                instead of a timed run: N messages in all, shared evenly by the publishers; ends when all are consumed and confirmed\n"
"                      -P 0 -n N: nothing is sent, N messages are taken out of queues that were kept\n"
"  --stall S           with -n: give up when nothing has moved for S seconds (20)\n"
"  --drain S           after a timed run: wait at most S seconds for the rest (20)\n"
"  --confirm W         confirm mode, at most W unconfirmed per publisher\n"
"  --prefetch N --ackmulti M   manual acks: M=1 one ack per delivery, M>1 one multiple-ack per M; neither: auto-ack\n"
"  --persistent --durable      delivery-mode 2; durable queues\n"
"  --queue-type T      declare them with x-queue-type T (quorum)\n"
"  --fanout            fanout exchange perf.fan, all queues bound to it\n"
"  --mixed             exchange perf.mixed (direct, or --topic), --routes keys (1000) bound to the Q queues, one queue per key;\n"
"                      every publisher sends its own --set (4096) messages with properties and headers, sizes log-uniform in\n"
"                      --size-min..--size-max (16..65536) bytes, drawn from --seed (1); consumers check what they get\n"
"  --rate R            total publish rate, messages a second; latency then means something\n"
"  --crate R           the consumers ack R messages a second in all (slow consumers; use with --prefetch)\n"
"  --tls               every connection through TLS; certificates are not checked (built with -DTLS only)\n"
"  --block B           most bytes per publisher send() (65536; 1400 or 8192 look like ordinary clients)\n"
"  --idle N            open N connections with one channel each, report the broker's memory and CPU for them, close, end\n"
"  --series            one JSON line a second (pub, got, backlog, RSS, CPU)\n"
"  --keep --qprefix x  leave the queues behind; their name prefix (pq)\n"
"  --label x           copied into the result\n"
"Result: rates in the measured window; lat_us, conf_us: delivery and confirm latency; broker_cpu seconds of the pids in the window (broker_sys of it\n"
"in the kernel); cpu_s_per_M: broker microseconds per message (mean of published and delivered; fan-out: per published one); held_share: share of the\n"
"window in which a publisher had bytes to send and waited for its socket (the generator's own turns included); lost: published (-P 0: asked for) - delivered after the drain; wrong, altered, disorder: --mixed deliveries with\n"
"another size, queue or key, with other property bytes, or out of the order of their queue.");exit(0);}
static void queue_delete(int adm,const char*qn){mbegin(1,50,40);e16(&E,0);ess(&E,qn);e8(&E,0);send_expect(adm,50,41);}
static void exchange_delete(int adm,const char*x){mbegin(1,40,20);e16(&E,0);ess(&E,x);e8(&E,0);send_expect(adm,40,21);}
static void exchange_declare(int adm,const char*x,const char*type){exchange_delete(adm,x);mbegin(1,40,10);e16(&E,0);ess(&E,x);ess(&E,type);e8(&E,0);e32(&E,0);send_expect(adm,40,11);}
static void bind_queue(int adm,const char*qn,const char*x,const char*key){mbegin(1,50,20);e16(&E,0);ess(&E,qn);ess(&E,x);ess(&E,key);e8(&E,0);e32(&E,0);send_expect(adm,50,21);}
static void run_idle(void){
  int*fds=malloc(idle*sizeof(int));usleep(300000);long r0=brss();double c0=bcpu();u64 t0=now_ns();for(int i=0;i<idle;i++)fds[i]=conn_open();double secs=(now_ns()-t0)/1e9;
  usleep(700000);long r1=brss();double c1=bcpu();
  printf("{\"label\":\"%s\",\"idle\":%d,\"secs\":%.3f,\"rss0_mb\":%.2f,\"rss1_mb\":%.2f,\"bytes_per_connection\":%.0f,\"cpu_us_per_connection\":%.0f}\n",
    label,idle,secs,r0/1048576.0,r1/1048576.0,(r1-r0)/(double)idle,(c1-c0)/idle*1e6);
  for(int i=0;i<idle;i++)shut(fds[i]);exit(0);}
int main(int argc,char**argv){
  signal(SIGPIPE,SIG_IGN);
  for(int i=1;i<argc;i++){const char*a=argv[i];
#define A(n) (!strcmp(a,n)&&i+1<argc)
    if(A("-p"))port=atoi(argv[++i]);else if(A("-H"))host=argv[++i];else if(A("-P"))P=atoi(argv[++i]);else if(A("-C"))C=atoi(argv[++i]);else if(A("-Q"))Q=atoi(argv[++i]);
    else if(A("-s"))size=atoll(argv[++i]);else if(A("-w"))warm=atof(argv[++i]);else if(A("-t"))dur=atof(argv[++i]);else if(A("-n"))maxmsgs=atoll(argv[++i]);
    else if(A("--confirm"))confirm_w=atoi(argv[++i]);else if(A("--prefetch"))prefetch=atoi(argv[++i]);else if(A("--ackmulti"))ackmulti=atoi(argv[++i]);
    else if(A("--rate"))prate=atof(argv[++i]);else if(A("--crate"))crate=atof(argv[++i]);else if(A("--pid"))pids[npids++]=atoi(argv[++i]);
    else if(A("--label"))label=argv[++i];else if(A("--drain"))drain_s=atof(argv[++i]);else if(A("--qprefix"))qpfx=argv[++i];else if(A("--block"))blockmax=atoi(argv[++i]);
    else if(A("--queue-type"))qtype=argv[++i];else if(A("--user"))user=argv[++i];else if(A("--pass"))pass=argv[++i];else if(A("--vhost"))vhost=argv[++i];else if(A("--stall"))stall_s=atof(argv[++i]);
    else if(A("--routes"))routes=atoi(argv[++i]);else if(A("--set"))setn=atoi(argv[++i]);else if(A("--seed"))seed=atoll(argv[++i]);else if(A("--size-min"))smin=atoll(argv[++i]);else if(A("--size-max"))smax=atoll(argv[++i]);
    else if(A("--idle"))idle=atoi(argv[++i]);else if(!strcmp(a,"--mixed"))mixed=1;else if(!strcmp(a,"--topic"))topic=1;
    else if(!strcmp(a,"--persistent"))persistent=1;else if(!strcmp(a,"--durable"))durable=1;else if(!strcmp(a,"--fanout"))fanout=1;else if(!strcmp(a,"--series"))series=1;else if(!strcmp(a,"--keep"))keepq=1;
    
#ifdef TLS
    else if(!strcmp(a,"--tls"))tls_start();
#endif
    else if(!strcmp(a,"--help"))usage();else {fprintf(stderr,"unknown option %s\n",a);return 1;}}
  if(size<8)size=8;
  if(P<0||C<0||Q<1||(mixed&&(smin<16||smax<smin||setn<1||routes<1||routes>65535))){fprintf(stderr,"loadgen: option out of range, see --help\n");return 1;}
  if(idle)run_idle();
  ep=epoll_create1(0);char qn[64];
  int adm=conn_open();
  for(int i=0;i<Q;i++){sprintf(qn,"%s%d",qpfx,i);if(!keepq)queue_delete(adm,qn);
    mbegin(1,50,10);e16(&E,0);ess(&E,qn);e8(&E,durable?2:0);size_t ta=E.n;e32(&E,0);if(*qtype){etab_s(&E,"x-queue-type",qtype);patch(&E,ta);}send_expect(adm,50,11);}
  if(fanout){exchange_declare(adm,"perf.fan","fanout");for(int i=0;i<Q;i++){sprintf(qn,"%s%d",qpfx,i);bind_queue(adm,qn,"perf.fan","");}}
  if(mixed){exchange_declare(adm,"perf.mixed",topic?"topic":"direct");char k[64];
    if(topic)for(int i=0;i<Q;i++){sprintf(qn,"%s%d",qpfx,i);sprintf(k,"*.q%02d.#",i);bind_queue(adm,qn,"perf.mixed",k);}
    else for(int r=0;r<routes;r++){sprintf(qn,"%s%d",qpfx,r%Q);route_key(k,r);bind_queue(adm,qn,"perf.mixed",k);}}
  pubs=calloc(P?P:1,sizeof(conn));cons=calloc(C?C:1,sizeof(conn));
  for(int i=0;i<C;i++){conn*c=&cons[i];c->fd=conn_open();c->idx=i;c->rcap=1<<20;c->rb=malloc(c->rcap);if(mixed)c->want=calloc(P+1,4);if(crate>0)c->heldtags=malloc(8*RING);
    if(prefetch){mbegin(1,60,10);e32(&E,0);e16(&E,prefetch);e8(&E,0);send_expect(c->fd,60,11);}
    sprintf(qn,"%s%d",qpfx,i%Q);mbegin(1,60,20);e16(&E,0);ess(&E,qn);char ct[16];sprintf(ct,"c%d",i);ess(&E,ct);e8(&E,(prefetch||ackmulti||crate>0)?0:2);e32(&E,0);send_expect(c->fd,60,21);
    fcntl(c->fd,F_SETFL,O_NONBLOCK);struct epoll_event ev={.events=EPOLLIN,.data.ptr=c};epoll_ctl(ep,EPOLL_CTL_ADD,c->fd,&ev);}
  for(int i=0;i<P;i++){conn*c=&pubs[i];c->fd=conn_open();c->idx=i;c->pub=1;c->rcap=1<<18;c->rb=malloc(c->rcap);c->ackbit=calloc(1,RING);c->tsr=malloc(8*RING);
    if(confirm_w){mbegin(1,85,10);e8(&E,0);send_expect(c->fd,85,11);}
    sprintf(qn,"%s%d",qpfx,i%Q);c->quota=maxmsgs/P+((u64)i<maxmsgs%P);
    if(mixed)build_set(c,"perf.mixed");else if(fanout)build_block(c,"perf.fan","");else build_block(c,"",qn);
    fcntl(c->fd,F_SETFL,O_NONBLOCK);struct epoll_event ev={.events=EPOLLIN|EPOLLOUT,.data.ptr=c};c->wr_on=1;epoll_ctl(ep,EPOLL_CTL_ADD,c->fd,&ev);}
  u64 t0=now_ns(),tw=t0+(u64)(warm*1e9),te=tw+(u64)(dur*1e9),last=t0,nexts=t0+1000000000ull,nextr=t0,td=0,moved=0,moved_at=t0;
  u64 s_sent=0,s_got=0,s_conf=0,e_sent=0,e_got=0,e_conf=0;double c0=0,c1=0,g0=0,g1=0,ks0=0,ks1=0;long rss0=brss(),rssm=0,rss1=0;double cA=bcpu();
  u64 ps=0,pg=0;double pc=cA;u64 t_measure1=0;int timed=(prate>0||crate>0);
  if(maxmsgs){measuring=1;t_measure0=t0;c0=cA;g0=mycpu();ks0=bcpus();}
  struct epoll_event evs[64];
  for(;;){
    int n=epoll_wait(ep,evs,64,timed?1:50);u64 now=now_ns();
    double dt=(now-last)/1e9;last=now;
    if(prate>0)for(int i=0;i<P;i++){conn*c=&pubs[i];c->tok+=dt*prate/P;double cap=prate/P*0.1+1;if(c->tok>cap)c->tok=cap;if(!c->wr_on&&c->tok>=1)pub_pump(c,now);}
    if(crate>0)for(int i=0;i<C;i++){conn*c=&cons[i];c->ctok+=dt*crate/C;if(c->ctok>crate/C*0.1+1)c->ctok=crate/C*0.1+1;while(c->ctok>=1&&c->hh<c->ht){put_ack(c,c->heldtags[c->hh++&(RING-1)],0);c->ctok-=1;}if(c->on>c->oo)flush_acks(c);}
    if(now>=nextr){long r=brss();if(r>rssm)rssm=r;nextr=now+100000000ull;if(tot_sent+tot_got+tot_conf!=moved){moved=tot_sent+tot_got+tot_conf;moved_at=now;}}
    for(int i=0;i<n;i++){conn*c=evs[i].data.ptr;
      if(evs[i].events&(EPOLLIN|EPOLLHUP|EPOLLERR))do conn_in(c);while(has_more(c->fd));
      if(evs[i].events&EPOLLOUT){if(c->pub)pub_pump(c,now);else flush_acks(c);}}
    if(!maxmsgs){
      if(!measuring&&!stop_pub&&now>=tw){measuring=1;t_measure0=now;s_sent=tot_sent;s_got=tot_got;s_conf=tot_conf;c0=bcpu();ks0=bcpus();g0=mycpu();}
      if(measuring&&now>=te){for(int i=0;i<P;i++)unheld(&pubs[i],now);measuring=0;t_measure1=now;e_sent=tot_sent;e_got=tot_got;e_conf=tot_conf;c1=bcpu();ks1=bcpus();g1=mycpu();rss1=brss();stop_pub=1;td=now;}
    }else{ if((!P||tot_sent>=maxmsgs)&&(!C||tot_got>=maxmsgs*(fanout?Q:1))&&(!confirm_w||tot_conf>=tot_sent))moved_at=0;
      if(!moved_at||now-moved_at>(u64)(stall_s*1e9)){
        if(moved_at)fprintf(stderr,"loadgen: nothing moved for %.0f s: sent %lu confirmed %lu got %lu\n",stall_s,tot_sent,tot_conf,tot_got);
        for(int i=0;i<P;i++)unheld(&pubs[i],now);measuring=0;t_measure1=now;e_sent=tot_sent;e_got=tot_got;e_conf=tot_conf;c1=bcpu();ks1=bcpus();g1=mycpu();rss1=brss();stop_pub=1;td=now;break;}}
    if(now>=nexts){double cc=bcpu();long r=brss();
      if(series)printf("{\"t\":%.1f,\"pub\":%lu,\"got\":%lu,\"backlog\":%ld,\"rss_mb\":%.1f,\"cpu\":%.2f}\n",(now-t0)/1e9,tot_sent-ps,tot_got-pg,(long)(tot_sent*(fanout?Q:1)-tot_got),r/1048576.0,cc-pc),fflush(stdout);
      ps=tot_sent;pg=tot_got;pc=cc;nexts+=1000000000ull;}
    if(stop_pub){u64 target=tot_sent*(fanout?Q:1);int done=(!C||tot_got>=target)&&(!confirm_w||tot_conf>=tot_sent);if(crate>0)done=1;
      if(done||now-td>(u64)(drain_s*1e9))break;}
  }
  double drain=(now_ns()-td)/1e9;double secs=(t_measure1-t_measure0)/1e9;if(!t_measure1||secs<1e-9)secs=1e-9;double dc=c1-c0;u64 ns=e_sent-s_sent,ng=e_got-s_got;
  u64 due=P||!maxmsgs?tot_sent*(fanout?Q:1):maxmsgs;double units=!P?ng:C?(fanout?(double)ng/Q:(ns+ng)/2.0):ns;if(crate>0)units=ns;
  double hs=0;for(int i=0;i<P;i++)hs+=pubs[i].held_ns/1e9;if(rss1>rssm)rssm=rss1;
  printf("{\"label\":\"%s\",\"P\":%d,\"C\":%d,\"Q\":%d,\"size\":%lu,\"secs\":%.3f,\"pub_rate\":%.0f,\"got_rate\":%.0f,\"conf_rate\":%.0f,\"nacks\":%lu,"
   "\"lat_us\":{\"p50\":%.0f,\"p99\":%.0f,\"p999\":%.0f,\"max\":%.0f},\"conf_us\":{\"p50\":%.0f,\"p99\":%.0f,\"p999\":%.0f},"
   "\"broker_cpu\":%.2f,\"broker_sys\":%.2f,\"cpu_s_per_M\":%.3f,\"gen_cpu\":%.2f,\"rss0_mb\":%.1f,\"rss1_mb\":%.1f,\"rssmax_mb\":%.1f,\"drain_s\":%.2f,\"lost\":%ld,\"backlog\":%ld,"
   "\"held_share\":%.3f,\"sent\":%lu,\"confirmed\":%lu,\"got\":%lu,\"body_bytes\":%lu,\"wrong\":%lu,\"altered\":%lu,\"disorder\":%lu,\"per_consumer\":[",
   label,P,C,Q,size,secs,ns/secs,ng/secs,(e_conf-s_conf)/secs,tot_nack,hpct(&Hd,.5),hpct(&Hd,.99),hpct(&Hd,.999),Hd.max/1000.0,hpct(&Hc,.5),hpct(&Hc,.99),hpct(&Hc,.999),
   dc,ks1-ks0,units>0?dc/units*1e6:0,g1-g0,rss0/1048576.0,rss1/1048576.0,rssm/1048576.0,drain,(long)(due-tot_got),(long)(e_sent*(fanout?Q:1)-e_got),P&&secs>0?hs/P/secs:0,tot_sent,tot_conf,tot_got,tot_bytes,tot_wrong,tot_altered,tot_disorder);
  for(int i=0;i<C;i++)printf("%s%lu",i?",":"",cons[i].got);puts("]}");
  fflush(stdout);
  for(int i=0;i<P;i++)shut(pubs[i].fd);for(int i=0;i<C;i++)shut(cons[i].fd);
  if(!keepq){for(int i=0;i<Q;i++){sprintf(qn,"%s%d",qpfx,i);queue_delete(adm,qn);}if(fanout)exchange_delete(adm,"perf.fan");if(mixed)exchange_delete(adm,"perf.mixed");}
  return 0;}
